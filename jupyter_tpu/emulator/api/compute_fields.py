"""The fields of what clients send to Compute Engine: what is not here, Google does not know.

A test compares them with the descriptors of google-cloud-compute, which is too slow to be imported
here. Each is ``name:kind``; without a kind it is a string (or enum, or bytes), ``any`` is not
looked into, ``[]`` is a list, ``map`` has strings, and a capital letter begins another message.
"""

from __future__ import annotations

_TEXTS = {
    "Instance": (
        "advancedMachineFeatures:AdvancedMachineFeatures canIpForward:bool "
        "confidentialInstanceConfig:any cpuPlatform creationTimestamp deletionProtection:bool "
        "description disks:AttachedDisk[] displayDevice:any fingerprint "
        "guestAccelerators:AcceleratorConfig[] hostname id:int instanceEncryptionKey:any "
        "keyRevocationActionType kind labelFingerprint labels:map lastStartTimestamp "
        "lastStopTimestamp lastSuspendedTimestamp localSsdEncryptionMode machineType "
        "metadata:Metadata minCpuPlatform name networkInterfaces:NetworkInterface[] "
        "networkPerformanceConfig:any params:InstanceParams privateIpv6GoogleAccess "
        "reservationAffinity:ReservationAffinity resourcePolicies:str[] resourceStatus:any "
        "satisfiesPzi:bool satisfiesPzs:bool scheduling:Scheduling selfLink "
        "serviceAccounts:ServiceAccount[] shieldedInstanceConfig:ShieldedInstanceConfig "
        "shieldedInstanceIntegrityPolicy:ShieldedInstanceIntegrityPolicy sourceMachineImage "
        "sourceMachineImageEncryptionKey:any startRestricted:bool status statusMessage "
        "tags:Tags workloadIdentityConfig:any zone"
    ),
    "AdvancedMachineFeatures": (
        "enableNestedVirtualization:bool enableUefiNetworking:bool performanceMonitoringUnit "
        "threadsPerCore:int turboMode visibleCoreCount:int"
    ),
    "AttachedDisk": (
        "architecture autoDelete:bool boot:bool deviceName diskEncryptionKey:any diskSizeGb:int "
        "forceAttach:bool guestOsFeatures:GuestOsFeature[] index:int "
        "initializeParams:AttachedDiskInitializeParams interface kind licenses:str[] mode "
        "savedState shieldedInstanceInitialState:any source type"
    ),
    "GuestOsFeature": "type",
    "AttachedDiskInitializeParams": (
        "architecture description diskName diskSizeGb:int diskType "
        "enableConfidentialCompute:bool labels:map licenses:str[] onUpdateAction "
        "provisionedIops:int provisionedThroughput:int replicaZones:str[] "
        "resourceManagerTags:map resourcePolicies:str[] sourceImage "
        "sourceImageEncryptionKey:any sourceSnapshot sourceSnapshotEncryptionKey:any "
        "storagePool"
    ),
    "AcceleratorConfig": "acceleratorCount:int acceleratorType",
    "Metadata": "fingerprint items:Items[] kind",
    "Items": "key value",
    "NetworkInterface": (
        "accessConfigs:AccessConfig[] aliasIpRanges:AliasIpRange[] "
        "aliasIpv6Ranges:AliasIpRange[] enableVpcScopedDns:bool fingerprint igmpQuery "
        "internalIpv6PrefixLength:int ipv6AccessConfigs:AccessConfig[] ipv6AccessType "
        "ipv6Address kind name network networkAttachment networkIP nicType parentNicName "
        "queueCount:int serviceClassId stackType subnetwork vlan:int"
    ),
    "AccessConfig": (
        "externalIpv6 externalIpv6PrefixLength:int kind name natIP networkTier "
        "publicPtrDomainName securityPolicy setPublicPtr:bool type"
    ),
    "AliasIpRange": "ipCidrRange subnetworkRangeName",
    "InstanceParams": "requestValidForDuration:Duration resourceManagerTags:map",
    "Duration": "nanos:int seconds:int",
    "ReservationAffinity": "consumeReservationType key values:str[]",
    "Scheduling": (
        "automaticRestart:bool availabilityDomain:int exposeHostTopology:bool "
        "gracefulShutdown:SchedulingGracefulShutdown hostErrorTimeoutSeconds:int "
        "instanceTerminationAction localSsdRecoveryTimeout:Duration locationHint "
        "maxRunDuration:Duration minNodeCpus:int nodeAffinities:any onHostMaintenance "
        "onInstanceStopAction:SchedulingOnInstanceStopAction preemptible:bool "
        "preemptionNoticeDuration:Duration provisioningModel skipGuestOsShutdown:bool "
        "terminationTime"
    ),
    "SchedulingGracefulShutdown": "enabled:bool maxDuration:Duration",
    "SchedulingOnInstanceStopAction": "discardLocalSsd:bool",
    "ServiceAccount": "email scopes:str[]",
    "ShieldedInstanceConfig": (
        "enableIntegrityMonitoring:bool enableSecureBoot:bool enableVtpm:bool"
    ),
    "ShieldedInstanceIntegrityPolicy": "updateAutoLearnPolicy:bool",
    "Tags": "fingerprint items:str[]",
    "InstanceTemplate": (
        "creationTimestamp description id:int kind name properties:InstanceProperties region "
        "selfLink sourceInstance sourceInstanceParams:any"
    ),
    "InstanceProperties": (
        "advancedMachineFeatures:AdvancedMachineFeatures canIpForward:bool "
        "confidentialInstanceConfig:any description disks:AttachedDisk[] "
        "guestAccelerators:AcceleratorConfig[] keyRevocationActionType labels:map "
        "localSsdEncryptionMode machineType metadata:Metadata minCpuPlatform "
        "networkInterfaces:NetworkInterface[] networkPerformanceConfig:any "
        "privateIpv6GoogleAccess reservationAffinity:ReservationAffinity "
        "resourceManagerTags:map resourcePolicies:str[] scheduling:Scheduling "
        "serviceAccounts:ServiceAccount[] shieldedInstanceConfig:ShieldedInstanceConfig "
        "tags:Tags workloadIdentityConfig:any"
    ),
    "InstanceGroupManager": (
        "allInstancesConfig:InstanceGroupManagerAllInstancesConfig autoHealingPolicies:any "
        "baseInstanceName creationTimestamp currentActions:any description "
        "distributionPolicy:DistributionPolicy fingerprint id:int instanceFlexibilityPolicy:any "
        "instanceGroup instanceLifecyclePolicy:InstanceGroupManagerInstanceLifecyclePolicy "
        "instanceTemplate kind listManagedInstancesResults name namedPorts:NamedPort[] region "
        "resourcePolicies:InstanceGroupManagerResourcePolicies satisfiesPzi:bool "
        "satisfiesPzs:bool selfLink standbyPolicy:any statefulPolicy:any status:any "
        "targetPools:str[] targetSize:int targetSizePolicy:InstanceGroupManagerTargetSizePolicy "
        "targetStoppedSize:int targetSuspendedSize:int "
        "updatePolicy:InstanceGroupManagerUpdatePolicy versions:InstanceGroupManagerVersion[] "
        "zone"
    ),
    "InstanceGroupManagerAllInstancesConfig": "properties:InstancePropertiesPatch",
    "InstancePropertiesPatch": "exposeHostTopology:bool labels:map metadata:map",
    "DistributionPolicy": "targetShape zones:DistributionPolicyZoneConfiguration[]",
    "DistributionPolicyZoneConfiguration": "zone",
    "InstanceGroupManagerInstanceLifecyclePolicy": (
        "defaultActionOnFailure forceUpdateOnRepair onFailedHealthCheck "
        "onRepair:InstanceGroupManagerInstanceLifecyclePolicyOnRepair"
    ),
    "InstanceGroupManagerInstanceLifecyclePolicyOnRepair": "allowChangingZone",
    "NamedPort": "name port:int",
    "InstanceGroupManagerResourcePolicies": "workloadPolicy",
    "InstanceGroupManagerTargetSizePolicy": "mode",
    "InstanceGroupManagerUpdatePolicy": (
        "instanceRedistributionType maxSurge:FixedOrPercent maxUnavailable:FixedOrPercent "
        "minimalAction mostDisruptiveAllowedAction replacementMethod type"
    ),
    "FixedOrPercent": "calculated:int fixed:int percent:int",
    "InstanceGroupManagerVersion": "instanceTemplate name targetSize:FixedOrPercent",
    "ResourcePolicy": (
        "creationTimestamp description diskConsistencyGroupPolicy:any groupPlacementPolicy:any "
        "id:int instanceSchedulePolicy:any kind name region resourceStatus:any selfLink "
        "snapshotSchedulePolicy:any status workloadPolicy:ResourcePolicyWorkloadPolicy"
    ),
    "ResourcePolicyWorkloadPolicy": (
        "acceleratorTopology acceleratorTopologyMode maxTopologyDistance type"
    ),
    "InstancesReportHostAsFaultyRequest": (
        "disruptionSchedule faultReasons:InstancesReportHostAsFaultyRequestFaultReason[]"
    ),
    "InstancesReportHostAsFaultyRequestFaultReason": "behavior description",
    "BulkInsertInstanceResource": (
        "count:int instanceFlexibilityPolicy:any instanceProperties:InstanceProperties "
        "locationPolicy:any minCount:int namePattern perInstanceProperties:any "
        "sourceInstanceTemplate"
    ),
    "InstanceGroupManagersRecreateInstancesRequest": "instances:str[]",
    "CapacityAdviceRequest": (
        "distributionPolicy:any instanceFlexibilityPolicy:any instanceProperties:any size:int"
    ),
    "CalendarModeAdviceRequest": "futureResourcesSpecs:any",
    "FutureReservation": (
        "aggregateReservation:AllocationAggregateReservation autoCreatedReservationsDeleteTime "
        "autoCreatedReservationsDuration:Duration autoDeleteAutoCreatedReservations:bool "
        "colocationResource commitmentInfo:any confidentialComputeType creationTimestamp "
        "deploymentType description enableEmergentMaintenance:bool id:int kind name namePrefix "
        "params:any planningStatus reservationMode reservationName resourceMetadata:any "
        "resourceName schedulingType selfLink selfLinkWithId shareSettings:any "
        "specificReservationRequired:bool specificSkuProperties:any status:any "
        "storagePoolProperties:any timeWindow:FutureReservationTimeWindow zone"
    ),
    "FutureReservationTimeWindow": "duration:Duration endTime startTime",
    "AllocationAggregateReservation": (
        "inUseResources:AllocationAggregateReservationReservedResourceInfo[] "
        "reservedResources:AllocationAggregateReservationReservedResourceInfo[] vmFamily "
        "workloadType"
    ),
    "AllocationAggregateReservationReservedResourceInfo": (
        "accelerator:AllocationAggregateReservationReservedResourceInfoAccelerator"
    ),
    "AllocationAggregateReservationReservedResourceInfoAccelerator": (
        "acceleratorCount:int acceleratorType"
    ),
    "Reservation": (
        "advancedDeploymentControl:any aggregateReservation:AllocationAggregateReservation "
        "commitment confidentialComputeType creationTimestamp deleteAfterDuration:Duration "
        "deleteAtTime deploymentType description earlyAccessMaintenance "
        "enableEmergentMaintenance:bool id:int kind linkedCommitments:str[] name params:any "
        "protectionTier reservationSharingPolicy:any resourceMetadata:any resourcePolicies:map "
        "resourceStatus:any satisfiesPzs:bool schedulingType selfLink shareSettings:any "
        "specificReservation:AllocationSpecificSKUReservation specificReservationRequired:bool "
        "status zone"
    ),
    "AllocationSpecificSKUReservation": (
        "assuredCount:int count:int inUseCount:int instanceProperties:any sourceInstanceTemplate"
    ),
    "InstancesSetLabelsRequest": "labelFingerprint labels:map",
}
#: Message → field → its kind.
FIELDS = {
    message: {
        name: kind or "str" for name, _, kind in (field.partition(":") for field in text.split())
    }
    for message, text in _TEXTS.items()
}

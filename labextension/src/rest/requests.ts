// Made by scripts/typescript_types.py from the server's routes: don't edit, run `make types`.

import {
  IAddSSHKey,
  IAddSlicesKernel,
  IAdoptTPU,
  IAllowAgents,
  IAnswerPlan,
  IApp,
  IAppVisit,
  IAttachMachine,
  IBucketList,
  IBudget,
  IBudgetOverview,
  ICarryOutPlan,
  ICatalog,
  IChangePackages,
  ICheckSetup,
  IChipKernels,
  IChipUse,
  IConnectTPU,
  IConsequences,
  ICopyFiles,
  ICreateReservation,
  ICreateTPU,
  IDeleteQueued,
  IDeleteTPU,
  IDetachMachine,
  IDiagnosis,
  IDisconnectTPU,
  IEnvironment,
  IEnvironmentKernelspec,
  IEnvironmentLock,
  IFleetStatus,
  IFoundPythons,
  IFreeChips,
  IFreedChips,
  IGrant,
  IGrantUse,
  IGuard,
  IHome,
  IHunt,
  IHuntCandidate,
  IInstalledPackage,
  IJob,
  IJobLog,
  IJobWhere,
  IKeepTPU,
  IKeepWarm,
  IKernel,
  IMachineCheck,
  IMemoryProfiles,
  IModelServer,
  INetworkSetup,
  IOpenApp,
  IOpenTensorBoard,
  IOpenTunnel,
  IOperation,
  IOwnLog,
  IPassTokens,
  IPlan,
  IPlanTPU,
  IPriceList,
  IProfileTPU,
  IQueueTPU,
  IQueuedResource,
  IQueuedResources,
  IQuote,
  IRay,
  IRemoveEnvironment,
  IRemoveGuard,
  IRemoveSSHKey,
  IReplaceTPU,
  IReplacement,
  IReportFault,
  IReservationQuote,
  IReservationView,
  IResetQueued,
  IRestartKernel,
  IRestoreSession,
  IRun,
  IRunInput,
  IRunOutput,
  ISSHKeyStatus,
  ISaveSessions,
  ISession,
  ISessionList,
  ISessionSetting,
  ISetGuard,
  ISetHome,
  ISetLogging,
  ISetSessions,
  ISetUpNetwork,
  IShareFolder,
  ISharedFolders,
  ISlicesKernel,
  ISplitChips,
  IStartHunt,
  IStartJob,
  IStartModelServer,
  IStartRay,
  IStartRun,
  IStartTPU,
  IStopJob,
  IStopTPU,
  IStopTrying,
  ISyncProject,
  ITPU,
  ITPUList,
  ITPULoad,
  ITPULogging,
  IToken,
  ITunnel,
  IUsage,
  IUsedTPU,
  IVisitApp
} from './api';

/** A TPU, or a queued resource. */
export interface IReference {
  name: string;
  zone: string;
}

type Value = string | number | boolean | undefined;

/** The query of an address; what is undefined is left out. */
export interface IQuery {
  [name: string]: Value;
}

/** What a request takes besides its path. */
export interface IParameters {
  body?: object;
  query?: IQuery;
  signal?: AbortSignal;
}

/** The requests of the fleet's REST interface, with the names that they have in Python. */
export abstract class FleetRequests {
  /** Sends a request, and resolves to its answer. */
  protected abstract send<T>(
    method: string,
    path: (string | IReference)[],
    parameters: IParameters
  ): Promise<T>;

  /** The health of this interface. */
  readonly status = (signal?: AbortSignal) =>
    this.send<IFleetStatus>('GET', ['status'], { signal });

  /** Types, zones and versions. */
  readonly catalog = (query: { zone?: Value } = {}, signal?: AbortSignal) =>
    this.send<ICatalog>('GET', ['catalog'], { query, signal });

  /** All TPUs. */
  readonly tpus = (query: { fresh?: Value } = {}, signal?: AbortSignal) =>
    this.send<ITPUList>('GET', ['tpus'], { query, signal });

  /** Create a TPU. */
  readonly create = (body: ICreateTPU, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus'], { body, signal });

  /** What creating a TPU would make and cost; creates nothing. */
  readonly quote = (body: ICreateTPU, signal?: AbortSignal) =>
    this.send<IQuote>('POST', ['quotes'], { body, signal });

  /** One TPU. */
  readonly tpu = (tpu: IReference, signal?: AbortSignal) =>
    this.send<ITPU>('GET', ['tpus', tpu], { signal });

  /** Delete a TPU. */
  readonly delete = (tpu: IReference, body: IDeleteTPU = {}, signal?: AbortSignal) =>
    this.send<IOperation>('DELETE', ['tpus', tpu], { body, signal });

  /** What an act on a TPU would end and take away; changes nothing. */
  readonly consequences = (tpu: IReference, query: { act?: Value; environment?: Value } = {}, signal?: AbortSignal) =>
    this.send<IConsequences>('GET', ['tpus', tpu, 'consequences'], { query, signal });

  /** Start a stopped TPU. */
  readonly start = (tpu: IReference, body: IStartTPU = {}, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus', tpu, 'start'], { body, signal });

  /** Stop a TPU. */
  readonly stop = (tpu: IReference, body: IStopTPU = {}, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus', tpu, 'stop'], { body, signal });

  /** Tell Google that a host's machine is broken (Compute Engine). */
  readonly reportFault = (tpu: IReference, body: IReportFault = {}, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus', tpu, 'report-fault'], { body, signal });

  /** Create an environment and its kernel. */
  readonly connect = (tpu: IReference, body: IConnectTPU = {}, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus', tpu, 'connect'], { body, signal });

  /** Remove its kernels from Jupyter. */
  readonly disconnect = (tpu: IReference, body: IDisconnectTPU = {}, signal?: AbortSignal) =>
    this.send<IOperation>('POST', ['tpus', tpu, 'disconnect'], { body, signal });

  readonly apps = {
    /** Open a web app of a host. */
    open: (tpu: IReference, body: IOpenApp, signal?: AbortSignal) =>
      this.send<IApp>('POST', ['tpus', tpu, 'apps'], { body, signal }),
    /** The open web apps. */
    list: (signal?: AbortSignal) =>
      this.send<IApp[]>('GET', ['apps'], { signal }),
    /** A URL that opens an app once. */
    visit: (app: string, body: IVisitApp = {}, signal?: AbortSignal) =>
      this.send<IAppVisit>('POST', ['apps', app, 'visits'], { body, signal }),
    /** Close an app. */
    close: (app: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['apps', app], { signal })
  };

  readonly attached = {
    /** Attach machines that you reach by SSH, as one TPU. */
    attach: (body: IAttachMachine, signal?: AbortSignal) =>
      this.send<ITPU>('POST', ['attached'], { body, signal }),
    /** Check what attaching machines would connect to; changes nothing. */
    check: (body: IAttachMachine, signal?: AbortSignal) =>
      this.send<IMachineCheck>('POST', ['attach-checks'], { body, signal }),
    /** Forget an attached machine. */
    detach: (tpu: IReference, body: IDetachMachine = {}, signal?: AbortSignal) =>
      this.send<IOperation>('DELETE', ['attached', tpu], { body, signal })
  };

  readonly budgets = {
    /** Budgets, the ledger, and plans that wait for a yes. */
    show: (signal?: AbortSignal) =>
      this.send<IBudgetOverview>('GET', ['budgets'], { signal }),
    /** Set a budget. */
    set: (body: IBudget, signal?: AbortSignal) =>
      this.send<IBudgetOverview>('POST', ['budgets'], { body, signal }),
    /** Remove a budget. */
    remove: (budget: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['budgets', budget], { signal }),
    /** Let coding agents run commands on a TPU that a person has created, or no longer. */
    allow: (tpu: IReference, body: IAllowAgents = {}, signal?: AbortSignal) =>
      this.send<ITPU>('POST', ['tpus', tpu, 'agents'], { body, signal })
  };

  readonly chipKernels = {
    /** Offer kernels that get some of its chips each. */
    split: (tpu: IReference, body: ISplitChips = {}, signal?: AbortSignal) =>
      this.send<IChipKernels>('POST', ['tpus', tpu, 'chips', 'split'], { body, signal })
  };

  readonly chips = {
    /** Its chips, and the processes that use them. */
    list: (tpu: IReference, query: { hosts?: Value } = {}, signal?: AbortSignal) =>
      this.send<IChipUse>('GET', ['tpus', tpu, 'chips'], { query, signal }),
    /** End processes that use its chips. */
    free: (tpu: IReference, body: IFreeChips, signal?: AbortSignal) =>
      this.send<IFreedChips>('POST', ['tpus', tpu, 'chips', 'free'], { body, signal })
  };

  readonly copies = {
    /** Copy files and folders to hosts or from one. */
    start: (tpu: IReference, body: ICopyFiles, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'copies'], { body, signal })
  };

  readonly doctor = {
    /** Check what keeps JAX from its chips. */
    check: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IDiagnosis>('POST', ['tpus', tpu, 'doctor'], { signal }),
    /** What jupyter-tpu itself has done. */
    log: (query: { tail?: Value; search?: Value } = {}, signal?: AbortSignal) =>
      this.send<IOwnLog>('GET', ['log'], { query, signal }),
    /** Check what keeps a TPU from being created. */
    preflight: (body: ICheckSetup = {}, signal?: AbortSignal) =>
      this.send<IDiagnosis>('POST', ['doctor'], { body, signal })
  };

  readonly environments = {
    /** Its environments. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IEnvironment[]>('GET', ['tpus', tpu, 'environments'], { signal }),
    /** Remove an environment. */
    remove: (tpu: IReference, environment: string, body: IRemoveEnvironment = {}, signal?: AbortSignal) =>
      this.send<IOperation>('DELETE', ['tpus', tpu, 'environments', environment], { body, signal }),
    /** What is installed in it. */
    listPackages: (tpu: IReference, environment: string, signal?: AbortSignal) =>
      this.send<IInstalledPackage[]>('GET', ['tpus', tpu, 'environments', environment, 'packages'], { signal }),
    /** The exact versions in it. */
    getLock: (tpu: IReference, environment: string, signal?: AbortSignal) =>
      this.send<IEnvironmentLock>('GET', ['tpus', tpu, 'environments', environment, 'lock'], { signal }),
    /** The kernelspec by which a kernel is started in it. */
    getKernelspec: (tpu: IReference, environment: string, signal?: AbortSignal) =>
      this.send<IEnvironmentKernelspec>('GET', ['tpus', tpu, 'environments', environment, 'kernelspec'], { signal }),
    /** Add and remove packages. */
    changePackages: (tpu: IReference, environment: string, body: IChangePackages = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'environments', environment, 'packages'], { body, signal }),
    /** Give all hosts the packages of host 0. */
    syncPackages: (tpu: IReference, environment: string, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'environments', environment, 'sync'], { signal }),
    /** Decide whether it has a warm kernel. */
    keepWarm: (tpu: IReference, environment: string, body: IKeepWarm = {}, signal?: AbortSignal) =>
      this.send<IEnvironment>('POST', ['tpus', tpu, 'environments', environment, 'warm'], { body, signal })
  };

  readonly grants = {
    /** Grants, and how many of their chips are in use. */
    list: (signal?: AbortSignal) =>
      this.send<IGrantUse[]>('GET', ['grants'], { signal }),
    /** Add a grant. */
    add: (body: IGrant, signal?: AbortSignal) =>
      this.send<IGrantUse[]>('POST', ['grants'], { body, signal }),
    /** Remove a grant. */
    remove: (grant: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['grants', grant], { signal })
  };

  readonly guards = {
    /** When it stops or deletes itself. */
    get: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IGuard>('GET', ['tpus', tpu, 'guard'], { signal }),
    /** Let it stop or delete itself at a limit. */
    set: (tpu: IReference, body: ISetGuard = {}, signal?: AbortSignal) =>
      this.send<IGuard>('POST', ['tpus', tpu, 'guard'], { body, signal }),
    /** Keep a TPU for some time. */
    keep: (tpu: IReference, body: IKeepTPU = {}, signal?: AbortSignal) =>
      this.send<IGuard>('POST', ['tpus', tpu, 'guard', 'keep'], { body, signal }),
    /** Remove its guard. */
    remove: (tpu: IReference, body: IRemoveGuard = {}, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'guard'], { body, signal })
  };

  readonly homes = {
    /** The home folders that are kept in buckets. */
    all: (signal?: AbortSignal) =>
      this.send<IHome[]>('GET', ['homes'], { signal }),
    /** Choose which folders of its home are kept in a bucket. */
    set: (tpu: IReference, body: ISetHome, signal?: AbortSignal) =>
      this.send<IHome>('POST', ['tpus', tpu, 'home'], { body, signal }),
    /** Do not save its home folders any more; the bucket keeps them. */
    remove: (tpu: IReference, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'home'], { signal }),
    /** Save its home folders now. */
    save: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'home', 'save'], { signal }),
    /** Restore its home folders. */
    restore: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'home', 'restore'], { signal }),
    /** Delete its home folders in the bucket. */
    forget: (tpu: IReference, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'home', 'copy'], { signal })
  };

  readonly hunts = {
    /** Running and recent hunts. */
    list: (signal?: AbortSignal) =>
      this.send<IHunt[]>('GET', ['hunts'], { signal }),
    /** Search for a TPU over zones, types and tiers. */
    start: (body: IStartHunt, signal?: AbortSignal) =>
      this.send<IHunt>('POST', ['hunts'], { body, signal }),
    /** What a hunt would try and cost; starts nothing. */
    quote: (body: IStartHunt, signal?: AbortSignal) =>
      this.send<IHuntCandidate[]>('POST', ['hunt-quotes'], { body, signal }),
    /** One hunt, with its last attempts. */
    get: (hunt: string, signal?: AbortSignal) =>
      this.send<IHunt>('GET', ['hunts', hunt], { signal }),
    /** Stop a hunt, and delete what it has begun. */
    stop: (hunt: string, signal?: AbortSignal) =>
      this.send<IHunt>('DELETE', ['hunts', hunt], { signal }),
    /** What replacing a TPU would create, lose and cost; changes nothing. */
    replacement: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IReplacement>('GET', ['tpus', tpu, 'replacement'], { signal }),
    /** Delete a TPU, and create the same one on other hardware. */
    replace: (tpu: IReference, body: IReplaceTPU = {}, signal?: AbortSignal) =>
      this.send<IHunt>('POST', ['tpus', tpu, 'replace'], { body, signal })
  };

  readonly jobs = {
    /** Its jobs. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IJob[]>('GET', ['tpus', tpu, 'jobs'], { signal }),
    /** Start a job. */
    start: (tpu: IReference, body: IStartJob, signal?: AbortSignal) =>
      this.send<IJob>('POST', ['tpus', tpu, 'jobs'], { body, signal }),
    /** All jobs. */
    all: (signal?: AbortSignal) =>
      this.send<IJob[]>('GET', ['jobs'], { signal }),
    /** One job, with its attempts. */
    get: (tpu: IReference, job: string, signal?: AbortSignal) =>
      this.send<IJob>('GET', ['tpus', tpu, 'jobs', job], { signal }),
    /** Delete an ended job and its output. */
    remove: (tpu: IReference, job: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'jobs', job], { signal }),
    /** Stop a job. */
    stop: (tpu: IReference, job: string, body: IStopJob = {}, signal?: AbortSignal) =>
      this.send<IJob>('POST', ['tpus', tpu, 'jobs', job, 'stop'], { body, signal }),
    /** Where it is on each host: the Python stacks of its processes. */
    why: (tpu: IReference, job: string, signal?: AbortSignal) =>
      this.send<IJobWhere>('GET', ['tpus', tpu, 'jobs', job, 'why'], { signal }),
    /** A part of its output on one host. */
    log: (tpu: IReference, job: string, query: { host?: Value; from?: Value; limit?: Value; search?: Value; wait?: Value; attempt?: Value; partial_out?: Value; partial_err?: Value } = {}, signal?: AbortSignal) =>
      this.send<IJobLog>('GET', ['tpus', tpu, 'jobs', job, 'log'], { query, signal })
  };

  readonly kernels = {
    /** The kernels that run there. */
    list: (tpu: IReference, query: { fresh?: Value } = {}, signal?: AbortSignal) =>
      this.send<IKernel[]>('GET', ['tpus', tpu, 'kernels'], { query, signal }),
    /** Shut down a kernel. */
    shutDown: (tpu: IReference, kernel: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'kernels', kernel], { signal }),
    /** Take over a kernel from its client. */
    takeOver: (tpu: IReference, kernel: string, signal?: AbortSignal) =>
      this.send<void>('POST', ['tpus', tpu, 'kernels', kernel, 'take'], { signal })
  };

  readonly logs = {
    /** Whether Cloud Logging stores its logs. */
    show: (tpu: IReference, signal?: AbortSignal) =>
      this.send<ITPULogging>('GET', ['tpus', tpu, 'logging'], { signal }),
    /** Let Cloud Logging store its logs, or not. */
    set: (tpu: IReference, body: ISetLogging, signal?: AbortSignal) =>
      this.send<ITPULogging>('POST', ['tpus', tpu, 'logging'], { body, signal })
  };

  readonly metrics = {
    /** Memory and load of its chips. */
    get: (tpu: IReference, query: { from?: Value; hosts?: Value } = {}, signal?: AbortSignal) =>
      this.send<ITPULoad>('GET', ['tpus', tpu, 'metrics'], { query, signal }),
    /** Memory and load of the chips of connected TPUs. */
    list: (signal?: AbortSignal) =>
      this.send<ITPULoad[]>('GET', ['metrics'], { signal })
  };

  readonly networks = {
    /** Create what is missing in a network for TPUs. */
    setUp: (body: ISetUpNetwork = {}, signal?: AbortSignal) =>
      this.send<INetworkSetup>('POST', ['networks'], { body, signal })
  };

  readonly operations = {
    /** Running and recent operations. */
    list: (signal?: AbortSignal) =>
      this.send<IOperation[]>('GET', ['operations'], { signal }),
    /** One operation, with its log. */
    get: (operation: string, signal?: AbortSignal) =>
      this.send<IOperation>('GET', ['operations', operation], { signal }),
    /** Cancel an operation. */
    cancel: (operation: string, signal?: AbortSignal) =>
      this.send<IOperation>('DELETE', ['operations', operation], { signal }),
    /** Stop trying to delete a TPU that Google refuses to delete. */
    stopTrying: (operation: string, body: IStopTrying = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['operations', operation, 'stop-trying'], { body, signal })
  };

  readonly plans = {
    /** What a TPU would cost at most; creates nothing. */
    make: (body: IPlanTPU, signal?: AbortSignal) =>
      this.send<IPlan>('POST', ['plans'], { body, signal }),
    /** One plan. */
    get: (plan: string, signal?: AbortSignal) =>
      this.send<IPlan>('GET', ['plans', plan], { signal }),
    /** Create what was planned. */
    carryOut: (plan: string, body: ICarryOutPlan = {}, signal?: AbortSignal) =>
      this.send<IPlan>('POST', ['plans', plan, 'create'], { body, signal }),
    /** Agree to a plan that is outside of its budget, or refuse it. */
    answer: (plan: string, body: IAnswerPlan, signal?: AbortSignal) =>
      this.send<IPlan>('POST', ['plans', plan, 'answer'], { body, signal })
  };

  readonly prices = {
    /** What chips cost, by region, with the dates of the prices. */
    list: (signal?: AbortSignal) =>
      this.send<IPriceList>('GET', ['prices'], { signal }),
    /** Read the prices from Google. */
    refresh: (signal?: AbortSignal) =>
      this.send<IPriceList>('POST', ['prices', 'refresh'], { signal })
  };

  readonly profiles = {
    /** Trace its programs, on all hosts at once, and show that in TensorBoard. */
    start: (tpu: IReference, body: IProfileTPU = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'profiles'], { body, signal }),
    /** What fills the memory of its devices, by the lines of programs. */
    memory: (tpu: IReference, query: { hosts?: Value; kernel?: Value } = {}, signal?: AbortSignal) =>
      this.send<IMemoryProfiles>('GET', ['tpus', tpu, 'memory'], { query, signal })
  };

  readonly pythons = {
    /** The Pythons found on its hosts. */
    list: (tpu: IReference, query: { path?: Value } = {}, signal?: AbortSignal) =>
      this.send<IFoundPythons>('GET', ['tpus', tpu, 'pythons'], { query, signal })
  };

  readonly queued = {
    /** All queued resources. */
    list: (query: { fresh?: Value } = {}, signal?: AbortSignal) =>
      this.send<IQueuedResources>('GET', ['queued'], { query, signal }),
    /** Request TPUs that Google creates when it has capacity. */
    create: (body: IQueueTPU, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['queued'], { body, signal }),
    /** One queued resource. */
    get: (queued: IReference, signal?: AbortSignal) =>
      this.send<IQueuedResource>('GET', ['queued', queued], { signal }),
    /** Delete a queued resource. */
    delete: (queued: IReference, body: IDeleteQueued = {}, signal?: AbortSignal) =>
      this.send<IOperation>('DELETE', ['queued', queued], { body, signal }),
    /** Put a failed or suspended queued resource back into the queue. */
    reset: (queued: IReference, body: IResetQueued = {}, signal?: AbortSignal) =>
      this.send<IQueuedResource>('POST', ['queued', queued, 'reset'], { body, signal })
  };

  readonly ray = {
    /** Its Ray cluster. */
    get: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IRay>('GET', ['tpus', tpu, 'ray'], { signal }),
    /** Start Ray on all its hosts. */
    start: (tpu: IReference, body: IStartRay = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'ray'], { body, signal }),
    /** Stop Ray, and what runs on it. */
    stop: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IRay>('DELETE', ['tpus', tpu, 'ray'], { signal }),
    /** Open Ray's dashboard. */
    openDashboard: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IApp>('POST', ['tpus', tpu, 'ray', 'dashboard'], { signal })
  };

  readonly reservations = {
    /** Reserved capacity, now and to come. */
    list: (signal?: AbortSignal) =>
      this.send<IReservationView[]>('GET', ['reservations'], { signal }),
    /** What a reservation would be and cost; reserves nothing. */
    quote: (body: ICreateReservation, signal?: AbortSignal) =>
      this.send<IReservationQuote>('POST', ['reservation-quotes'], { body, signal }),
    /** Reserve chips for some days (calendar mode). */
    create: (body: ICreateReservation, signal?: AbortSignal) =>
      this.send<IReservationView>('POST', ['reservations'], { body, signal })
  };

  readonly runs = {
    /** The commands that run there. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IRun[]>('GET', ['tpus', tpu, 'runs'], { signal }),
    /** Run a command on hosts. */
    start: (tpu: IReference, body: IStartRun, signal?: AbortSignal) =>
      this.send<IRun>('POST', ['tpus', tpu, 'runs'], { body, signal }),
    /** One run, host by host. */
    get: (tpu: IReference, run: string, signal?: AbortSignal) =>
      this.send<IRun>('GET', ['tpus', tpu, 'runs', run], { signal }),
    /** What it has written; waits up to 20 seconds for more. */
    output: (tpu: IReference, run: string, query: { from?: Value; wait?: Value } = {}, signal?: AbortSignal) =>
      this.send<IRunOutput>('GET', ['tpus', tpu, 'runs', run, 'output'], { query, signal }),
    /** Write to its standard input. */
    write: (tpu: IReference, run: string, body: IRunInput = {}, signal?: AbortSignal) =>
      this.send<IRun>('POST', ['tpus', tpu, 'runs', run, 'input'], { body, signal }),
    /** Stop it on all hosts. */
    stop: (tpu: IReference, run: string, signal?: AbortSignal) =>
      this.send<IRun>('DELETE', ['tpus', tpu, 'runs', run], { signal })
  };

  readonly serving = {
    /** Its servers of models. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<IModelServer[]>('GET', ['tpus', tpu, 'model-servers'], { signal }),
    /** Start a server of a model. */
    start: (tpu: IReference, body: IStartModelServer = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'model-servers'], { body, signal }),
    /** All servers of models. */
    all: (signal?: AbortSignal) =>
      this.send<IModelServer[]>('GET', ['model-servers'], { signal }),
    /** One server. */
    get: (tpu: IReference, server: string, signal?: AbortSignal) =>
      this.send<IModelServer>('GET', ['tpus', tpu, 'model-servers', server], { signal }),
    /** Stop a server, and close its port here. */
    stop: (tpu: IReference, server: string, body: IStopJob = {}, signal?: AbortSignal) =>
      this.send<IModelServer>('POST', ['tpus', tpu, 'model-servers', server, 'stop'], { body, signal })
  };

  readonly sessions = {
    /** The saved variables of kernels that are known here. */
    all: (signal?: AbortSignal) =>
      this.send<ISession[]>('GET', ['sessions'], { signal }),
    /** The project's buckets, those of the zone's region first; -: of no zone. */
    buckets: (zone: string, signal?: AbortSignal) =>
      this.send<IBucketList>('GET', ['zones', zone, 'buckets'], { signal }),
    /** The sessions that its kernels can restore. */
    list: (tpu: IReference, query: { fresh?: Value } = {}, signal?: AbortSignal) =>
      this.send<ISessionList>('GET', ['tpus', tpu, 'sessions'], { query, signal }),
    /** Save the variables of its kernels. */
    save: (tpu: IReference, body: ISaveSessions = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'sessions'], { body, signal }),
    /** Choose where its kernels are saved, and when. */
    set: (tpu: IReference, body: ISetSessions = {}, signal?: AbortSignal) =>
      this.send<ISessionSetting>('POST', ['tpus', tpu, 'sessions', 'setting'], { body, signal }),
    /** Do not save its kernels any more; its sessions stay. */
    remove: (tpu: IReference, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'sessions', 'setting'], { signal }),
    /** Put a session into a kernel. */
    restore: (tpu: IReference, session: string, body: IRestoreSession, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'sessions', session, 'restore'], { body, signal }),
    /** Delete a session. */
    forget: (tpu: IReference, session: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'sessions', session], { signal }),
    /** Restart a kernel with its variables. */
    restart: (tpu: IReference, kernel: string, body: IRestartKernel = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'kernels', kernel, 'restart'], { body, signal })
  };

  readonly shares = {
    /** The folders that its hosts share. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<ISharedFolders>('GET', ['tpus', tpu, 'shares'], { signal }),
    /** Share a folder of host 0, or end that. */
    start: (tpu: IReference, body: IShareFolder = {}, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'shares'], { body, signal })
  };

  readonly sliceKernels = {
    /** Offer a kernel on all hosts of this TPU and of others. */
    add: (tpu: IReference, body: IAddSlicesKernel, signal?: AbortSignal) =>
      this.send<ISlicesKernel>('POST', ['tpus', tpu, 'kernels', 'slices'], { body, signal })
  };

  readonly sshKey = {
    /** The SSH key for TPUs, and where it is known. */
    show: (signal?: AbortSignal) =>
      this.send<ISSHKeyStatus>('GET', ['ssh-key'], { signal }),
    /** Add it to the Google account or the project. */
    add: (body: IAddSSHKey = {}, signal?: AbortSignal) =>
      this.send<ISSHKeyStatus>('POST', ['ssh-key'], { body, signal }),
    /** Remove it from the Google account and the project. */
    remove: (body: IRemoveSSHKey = {}, signal?: AbortSignal) =>
      this.send<ISSHKeyStatus>('DELETE', ['ssh-key'], { body, signal })
  };

  readonly sync = {
    /** Copy what has changed in a folder. */
    start: (tpu: IReference, body: ISyncProject, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'sync'], { body, signal })
  };

  readonly tensorboard = {
    /** Open TensorBoard for a folder. */
    open: (tpu: IReference, body: IOpenTensorBoard, signal?: AbortSignal) =>
      this.send<IOperation>('POST', ['tpus', tpu, 'tensorboard'], { body, signal })
  };

  readonly tokens = {
    /** The tokens that TPUs get, and where each is found. */
    list: (signal?: AbortSignal) =>
      this.send<IToken[]>('GET', ['tokens'], { signal }),
    /** Pass tokens to what is started on TPUs. */
    passOn: (body: IPassTokens, signal?: AbortSignal) =>
      this.send<IToken[]>('POST', ['tokens'], { body, signal }),
    /** Stop passing a token. */
    remove: (token: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tokens', token], { signal })
  };

  readonly tunnels = {
    /** The tunnels to it. */
    list: (tpu: IReference, signal?: AbortSignal) =>
      this.send<ITunnel[]>('GET', ['tpus', tpu, 'tunnels'], { signal }),
    /** Open a tunnel. */
    open: (tpu: IReference, body: IOpenTunnel, signal?: AbortSignal) =>
      this.send<ITunnel>('POST', ['tpus', tpu, 'tunnels'], { body, signal }),
    /** Close a tunnel. */
    close: (tpu: IReference, tunnel: string, signal?: AbortSignal) =>
      this.send<void>('DELETE', ['tpus', tpu, 'tunnels', tunnel], { signal }),
    /** All tunnels. */
    all: (signal?: AbortSignal) =>
      this.send<ITunnel[]>('GET', ['tunnels'], { signal })
  };

  readonly usage = {
    /** Make a TPU yours: label it. */
    adopt: (tpu: IReference, body: IAdoptTPU = {}, signal?: AbortSignal) =>
      this.send<IUsedTPU>('POST', ['tpus', tpu, 'adopt'], { body, signal }),
    /** All TPUs and queued resources, and whose they are. */
    show: (query: { projects?: Value } = {}, signal?: AbortSignal) =>
      this.send<IUsage>('GET', ['usage'], { query, signal })
  };
}

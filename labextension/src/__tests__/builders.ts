// What a server may answer: each with the usual content, and what a test changes of it.

import {
  IApp,
  ICatalog,
  IConsequences,
  ICost,
  IFleetStatus,
  IHost,
  IHostJob,
  IJob,
  IKernel,
  IOperation,
  IProblem,
  IQueuedResource,
  ISession,
  IQuote,
  ITPU,
  ITunnel,
  Reason
} from '../rest/api';
import { VERSION } from '../rest/version';

/** Why something failed. */
export function aProblem(
  message: string,
  reason: Reason,
  hint = '',
  more: Partial<IProblem> = {}
): IProblem {
  return {
    message,
    reason,
    hint,
    retry_after: null,
    scope: '',
    field: '',
    ...more
  };
}

/** What the server answers when it is asked what an act ends. */
export function aLoss(
  ends: Partial<IConsequences> = {}
): [number, IConsequences] {
  const none = {
    kernels: [],
    jobs: [],
    kernels_text: '',
    jobs_text: '',
    saves: false,
    sessions_text: '',
    lost_sessions: []
  };
  return [200, { ...none, lost: [], ...ends }];
}

/** What a v5litepod-8 in us-central1-a costs that is not emulated. */
export function aCost(more: Partial<ICost> = {}): ICost {
  return {
    usd_per_hour: 9.6,
    list_usd_per_hour: 9.6,
    region: 'us-central1',
    date: '2024-12-23',
    grant: '',
    since: '2026-10-14T10:00:00Z',
    usd: 28.8,
    ...more
  };
}

/** What the usual form asks for, on Google Cloud. */
export function aQuote(more: Partial<IQuote> = {}): IQuote {
  return {
    name: 'my-tpu',
    zone: 'us-central1-a',
    zone_reason: '',
    type: 'v5litepod-8',
    meaning: '8 chips · 1 host · 128 GB HBM',
    version: 'v2-alpha-tpuv5-lite',
    tier: 'on-demand',
    chips: 8,
    hosts: 1,
    emulated: false,
    cost: aCost({ since: '', usd: null }),
    question: 'v5litepod-8 costs about $9.60 an hour.',
    uncovered: '',
    warning: '',
    api: 'tpu',
    api_reason: '',
    other_form: '',
    ...more
  };
}

/** A server where everything works. */
export function aStatus(more: Partial<IFleetStatus> = {}): IFleetStatus {
  return {
    project: 'p',
    emulated: true,
    version: VERSION,
    problem: null,
    storage: null,
    loops: [],
    failing: [],
    ...more
  };
}

export function aTPU(more: Partial<ITPU> = {}): ITPU {
  return {
    name: 'my-tpu',
    zone: 'us-central1-a',
    project: 'p',
    id: '1',
    type: 'v5litepod-8',
    meaning: '8 chips · 1 host · 128 GB HBM',
    state: 'READY',
    cloud_state: '',
    health: '',
    version: 'v2-alpha-tpuv5-lite',
    tier: 'on-demand',
    api: 'tpu',
    run_for: null,
    run_ends: '',
    emulated: true,
    attached: false,
    created: '2026-10-14T10:00:00Z',
    ended: '',
    cost: aCost({ usd_per_hour: 0, usd: 0 }),
    chips: 8,
    hosts: [],
    connection: 'disconnected',
    environments: [],
    kernels: 0,
    projects: [],
    shares: null,
    sessions: null,
    home: null,
    guard: null,
    guard_stop: null,
    maintenance: null,
    interruption: null,
    problem: null,
    advice: '',
    owner: '',
    not_yours: false,
    forgotten: false,
    agents_may_use: false,
    planned_by: '',
    operations: [],
    labels: {},
    queued: '',
    network: '',
    subnetwork: '',
    options: {
      topology: '',
      internal_ips: false,
      service_account: '',
      scopes: [],
      data_disks: [],
      tags: [],
      metadata: {},
      startup_script: '',
      description: '',
      secure_boot: false
    },
    details: {},
    ...more
  };
}

/** Hosts of a TPU, from number 0. */
export function someHosts(count: number, more: Partial<IHost> = {}): IHost[] {
  return [...Array(count).keys()].map(index => ({
    index,
    internal_address: `10.0.0.${index}`,
    external_address: '',
    link: { state: 'up', since: '', problem: null },
    ...more
  }));
}

/** What a server answers that refuses something. */
export function refused(
  message: string,
  reason: Reason = 'CONFLICT',
  hint = '',
  status = 409
): [number, IProblem] {
  return [status, aProblem(message, reason, hint)];
}

export function connectedTPU(more: Partial<ITPU> = {}): ITPU {
  return aTPU({
    connection: 'connected',
    environments: [
      {
        name: 'default',
        tpu: 'my-tpu',
        zone: 'us-central1-a',
        state: 'ready',
        python: '3.12.4',
        jax: '0.7.2',
        torch: '',
        framework: 'jax',
        path: '',
        python_path: '',
        packages: [],
        requirements: '',
        setup: { apt: [], timezone: '', oh_my_zsh: false, script: '' },
        versions: null,
        asked: null,
        devices: 8,
        warm: { state: 'off', memory: 0, imports: [], problem: '' },
        platform: 'cpu',
        kernelspec: 'tpu-my-tpu',
        display_name: 'Python 3.12 · my-tpu',
        pod_kernelspec: '',
        pod_display_name: '',
        problem: null
      }
    ],
    ...more
  });
}

export function aKernel(more: Partial<IKernel> = {}): IKernel {
  return {
    id: 'k1',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    host: 0,
    environment: 'default',
    state: 'busy',
    pid: 1,
    started: '',
    last_activity: '',
    attached: true,
    holder: '',
    chips: false,
    booked: [],
    cell: '',
    hosts: [],
    notebook: 'work/Untitled.ipynb',
    problem: null,
    ...more
  };
}

export function aQueuedResource(
  more: Partial<IQueuedResource> = {}
): IQueuedResource {
  return {
    name: 'my-tpu',
    zone: 'us-west4-a',
    project: 'p',
    emulated: true,
    state: 'ACTIVE',
    meaning: '',
    tpus: ['my-tpu'],
    type: 'v5litepod-8',
    version: '',
    tier: 'spot',
    run_for: null,
    reservation: '',
    created: '',
    valid_until: '',
    can_reset: false,
    has_tpus: false,
    owner: '',
    not_yours: false,
    forgotten: false,
    problem: null,
    ...more
  };
}

export function aSession(more: Partial<ISession> = {}): ISession {
  return {
    id: 's1',
    name: 'train',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    type: 'v5litepod-8',
    emulated: false,
    hosts: 1,
    place: 'gs://my-bucket/sessions',
    host: 0,
    kernel: '1',
    notebook: '/home/me/train.ipynb',
    saved: '2026-11-29T14:02:00Z',
    expires: '',
    size: 1_200_000_000,
    variables: 41,
    missing: [],
    missing_count: 0,
    python: '3.12.4',
    jax: '0.7.2',
    billed: true,
    checked: '',
    interrupted: null,
    problem: null,
    ...more
  };
}

export function anOperation(more: Partial<IOperation> = {}): IOperation {
  return {
    id: 'o1',
    kind: 'connect',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    state: 'running',
    cancellable: true,
    undeleted: '',
    message: '',
    progress: 0,
    steps: [],
    log: [],
    result: null,
    app: '',
    problem: null,
    created: '2026-10-14T10:00:00Z',
    ended: '',
    ...more
  };
}

export function aTunnel(more: Partial<ITunnel> = {}): ITunnel {
  return {
    id: 't1',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    host: 0,
    port: 6006,
    local_port: 7007,
    local_port_reason: '',
    address: '127.0.0.1',
    state: 'open',
    since: '',
    problem: null,
    connections: 0,
    sent: 0,
    received: 0,
    compressed: false,
    ...more
  };
}

export function anApp(more: Partial<IApp> = {}): IApp {
  return {
    id: 'a1',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    host: 0,
    port: 6006,
    path: '/',
    name: 'TensorBoard',
    kind: 'tensorboard',
    logdir: '/home/me/runs',
    allow_external: false,
    state: 'open',
    problem: null,
    created: '2026-10-14T10:00:00Z',
    sent: 0,
    received: 0,
    ...more
  };
}

const type = {
  config_type: '',
  hosts: 1,
  topology: '',
  zones: ['us-central1-a', 'us-west4-a'],
  tpu_zones: [],
  machine: null,
  other_form: ''
};

export const catalog: ICatalog = {
  types: [
    {
      ...type,
      name: 'v4-32',
      generation: 'v4',
      meaning: '16 chips · 4 hosts · 512 GB HBM',
      chips: 16,
      hosts: 4,
      chips_per_host: 4,
      devices: 16,
      devices_per_host: 4,
      hbm_gib: 512,
      version: 'tpu-ubuntu2204-base',
      zones: ['us-central2-b'],
      prices: [
        {
          region: 'us-central2',
          on_demand: 51.52,
          spot: null,
          date: '2024',
          flex_start: null
        }
      ]
    },
    {
      ...type,
      name: 'v5litepod-8',
      generation: 'v5e',
      meaning: '8 chips · 1 host · 128 GB HBM',
      chips: 8,
      chips_per_host: 8,
      devices: 8,
      devices_per_host: 8,
      hbm_gib: 128,
      version: 'v2-alpha-tpuv5-lite',
      prices: [
        {
          region: 'us-central1',
          on_demand: 9.6,
          spot: 5.04,
          date: '2024',
          flex_start: null
        },
        {
          region: 'us-west4',
          on_demand: 9.6,
          spot: 4.08,
          date: '2024',
          flex_start: null
        }
      ]
    }
  ],
  zones: ['us-central1-a', 'us-central2-b', 'us-west4-a'],
  versions: ['tpu-ubuntu2204-base', 'v2-alpha-tpuv5-lite'],
  project: 'p',
  default_zone: 'us-central1-a',
  suggested_zones: {
    'v4-32': 'us-central2-b',
    'v5litepod-8': 'us-central1-a'
  },
  emulated: true,
  cloud: 'emulator:1',
  problem: null
};

/** A job that runs on all hosts. */
export function aJob(more: Partial<IJob> = {}, hosts = 1): IJob {
  const host: Omit<IHostJob, 'host'> = {
    state: 'running',
    exit_code: null,
    cause: '',
    paused: '',
    pid: 7,
    started: '',
    ended: '',
    restarted: false,
    leaving_since: '',
    silent_since: '',
    usual_gap: 0,
    tail: [],
    problem: null,
    serving: null
  };
  const numbers = [...Array(hosts).keys()];
  return {
    id: 'j1',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    name: 'train',
    command: ['python', 'train.py'],
    cwd: '',
    environment: '',
    variables: [],
    restart_with_tpu: false,
    end_together: true,
    serving: null,
    created: '',
    state: 'running',
    exit_code: null,
    notice: '',
    stopped: false,
    ended: '',
    attempts: [
      {
        number: 1,
        created: '',
        hosts: numbers.map(number => ({ ...host, host: number }))
      }
    ],
    ...more
  };
}

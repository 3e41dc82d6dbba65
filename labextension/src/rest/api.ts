// Made by scripts/typescript_types.py from the server's models: don't edit, run `make types`.

/** A TPU type and what its name means. */
export interface IAcceleratorType {
  name: string;
  generation: string;
  meaning: string;
  chips: number;
  hosts: number;
  chips_per_host: number;
  devices: number;
  devices_per_host: number;
  hbm_gib: number;
  topology: string;
  config_type: string;
  version: string;
  zones: string[];
  prices: IRegionPrice[];
  tpu_zones: string[];
  machine: IMachineShape | null;
  other_form: string;
}

/** Where to add the key that jupyter-tpu uses for TPUs. */
export interface IAddSSHKey {
  /**
   * account: your Google account, for OS Login. project: the project's
   * metadata. auto: what the project uses.
   */
  to?: 'account' | 'auto' | 'project';
  /** For how many days it may log in. */
  days?: number;
  dry_run?: boolean;
}

/** One kernel on all hosts of several TPUs, which are the slices of one job. */
export interface IAddSlicesKernel {
  slices: string[];
  /** text without NUL characters */
  environment?: string;
}

/** How a TPU is adopted. Its name is required where it is another person's. */
export interface IAdoptTPU {
  confirm_name?: string;
}

/**
 * Whether coding agents may run commands on a TPU that a person has created.
 */
export interface IAllowAgents {
  allowed?: boolean;
  confirm_name?: string;
}

/** A person's answer to the question whether a plan may be carried out. */
export interface IAnswerPlan {
  approve: boolean;
}

/** A web app of a host that is open here; it closes with the server. */
export interface IApp {
  id: string;
  tpu: string;
  zone: string;
  host: number;
  port: number;
  path: string;
  name: string;
  kind: 'port' | 'ray' | 'tensorboard';
  logdir: string;
  allow_external: boolean;
  state: 'needs-attention' | 'open' | 'waiting';
  problem: IProblem | null;
  created: string;
  sent: number;
  received: number;
}

/** The URL with which one browser opens an app. */
export interface IAppVisit {
  url: string;
  probe: string;
  storage_check: string;
  server_path: string;
}

/**
 * Machines to attach as one TPU: what the user of the server gives to `ssh`.
 */
export interface IAttachMachine {
  ssh: string[];
  /**
   * The name of the TPU. Required for several machines. By default from
   * SSH_ALIAS.
   */
  name?: string | null;
  /**
   * Trust the host key with this fingerprint (SHA256:…) without asking, if your
   * known hosts do not have it.
   */
  host_keys?: string[];
}

/** A bucket of the project. */
export interface IBucket {
  name: string;
  location: string;
  near: boolean;
  warning: string;
}

/** The buckets that can be chosen, those of the region first. */
export interface IBucketList {
  region: string;
  buckets: IBucket[];
  problem: IProblem | null;
}

/**
 * How much someone may spend on TPUs. A limit a day or in total is required.
 */
export interface IBudget {
  /** 1–63 lower-case letters, digits, hyphens and underscores */
  who: string;
  /** At most this much a day, in UTC. In USD. */
  day?: number | null;
  /** At most this much in total. In USD. */
  total?: number | null;
  /** The last day of the budget, such as 2026-12-31. */
  until?: string;
  /**
   * Only this type, such as v5litepod-8, or generation, such as v5e. By default
   * all.
   */
  types?: string[];
  /** Only this zone. By default all. */
  zones?: string[];
  /**
   * The folder of the Jupyter server's computer whose files coding agents may
   * copy. By default that in which Jupyter runs, if it is not your home folder.
   */
  folder?: string;
}

/**
 * All budgets, what they are spent on, and the plans that wait for a person's
 * yes.
 */
export interface IBudgetOverview {
  me: string;
  emulated: boolean;
  budgets: IBudgetUse[];
  spending: ISpending[];
  questions: IPlan[];
}

/** A budget, and how much of it is used. All amounts in USD, by list prices. */
export interface IBudgetUse {
  budget: IBudget;
  spent_today: number;
  spent: number;
  committed: number;
  left: number;
  expired: boolean;
  text: string;
}

/** How a plan is carried out. */
export interface ICarryOutPlan {
  who?: string;
  approve?: boolean;
}

export interface ICatalog {
  types: IAcceleratorType[];
  zones: string[];
  versions: string[];
  project: string;
  default_zone: string;
  suggested_zones: { [key: string]: string };
  emulated: boolean;
  cloud: string;
  problem: IProblem | null;
}

/** An event: the new state of one thing, or that it is gone. */
export interface IChange {
  what:
    | 'app'
    | 'budgets'
    | 'grant'
    | 'hunt'
    | 'job'
    | 'kernel'
    | 'operation'
    | 'prices'
    | 'queued'
    | 'run'
    | 'session'
    | 'tpu'
    | 'tunnel';
  id: string;
  gone: boolean;
  tpu: ITPU | null;
  operation: IOperation | null;
  kernel: IKernel | null;
  tunnel: ITunnel | null;
  app: IApp | null;
  run: IRun | null;
  job: IJob | null;
  hunt: IHunt | null;
  grant: IGrant | null;
  queued: IQueuedResource | null;
  prices: IPriceList | null;
  budgets: IBudgetOverview | null;
  session: ISession | null;
}

/** Packages to add to an environment, and to remove from it, on all hosts. */
export interface IChangePackages {
  add?: string[];
  remove?: string[];
}

/** What is to be created, as far as that is known: then more can be checked. */
export interface ICheckSetup {
  /** Check whether a TPU of this type could be created. */
  type?: string | null;
  zone?: string | null;
  /** Its runtime version. By default depends on the type. */
  version?: string | null;
  tier?: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  /** The network whose firewall is checked. */
  network?: string | null;
}

/**
 * What the user lets run when a host is about to be stopped, to save what must
 * not be lost.
 */
export interface ICheckpoint {
  host: number;
  what: string;
  notebook: string;
  state: 'done' | 'failed' | 'running';
  seconds: number | null;
  error: string;
}

/** Chips that were given to one kernel, until it ends. */
export interface IChipBooking {
  chips: number[];
  kernel: string;
  notebook: string;
}

/** A process that uses chips of a host; no other can use them until it ends. */
export interface IChipHolder {
  host: number;
  pid: number;
  start: string;
  since: string;
  user: string;
  command: string;
  devices: string[];
  container: string;
  stop: string;
  kernel: string;
  notebook: string;
  job: string;
  run: string;
}

/**
 * A kernel in the kernel pickers that gets some chips of host 0, and no others.
 */
export interface IChipKernel {
  chips: number[];
  kernelspec: string;
  display_name: string;
  variables: { [key: string]: string };
}

/** The kernels of an environment that get some of the chips. */
export interface IChipKernels {
  tpu: string;
  zone: string;
  environment: string;
  kernels: IChipKernel[];
  note: string;
}

/** One chip at one time. None: not reported. */
export interface IChipLoad {
  memory_used: number | null;
  memory_total: number | null;
  duty_cycle: number | null;
}

/** What an hour of one chip costs in one region, in USD. */
export interface IChipPrice {
  name: string;
  region: string;
  on_demand: number;
  spot: number | null;
  date: string;
  flex_start: number | null;
}

/** The chips of a TPU, host by host. */
export interface IChipUse {
  tpu: string;
  zone: string;
  hosts: IHostChips[];
}

/**
 * How a TPU is connected: one environment for kernels, the same on all its
 * hosts.
 */
export interface IConnectTPU {
  /**
   * What uses the chips: JAX, or PyTorch (TorchTPU, with PyTorch for the CPU).
   * By default jax.
   */
  framework?: 'jax' | 'torch' | null;
  /**
   * Packages to install in addition to JAX (or PyTorch), NumPy, matplotlib and
   * tqdm.
   */
  packages?: string[];
  /** A requirements file of packages to install. */
  requirements?: string | null;
  setup?: IHostSetup;
  /** 1–40 lower-case letters, digits, hyphens, dots and underscores */
  environment?: string;
  /**
   * Python version, such as 3.12. By default the newest on the host that JAX
   * supports.
   */
  python?: string | null;
  /**
   * Exact versions to install, from `env lock`, `uv export` or `pip freeze`.
   */
  lock?: string | null;
  resolve_again?: boolean;
  python_path?: string | null;
  install_ipykernel?: boolean;
  /**
   * Forget the apt packages, time zone, setup script and oh-my-zsh of earlier
   * commands. What the hosts have stays.
   */
  replace_setup?: boolean;
  /**
   * A shell command to start as a job on all hosts when the environment is
   * ready (see `job`).
   */
  then_run?: string;
}

/** Whether a TPU is connected. */
export type ConnectionState =
  | 'connected'
  | 'connecting'
  | 'disconnected'
  | 'needs-attention'
  | 'reconnecting';

/** What an act on a TPU would end and take away; nothing is changed yet. */
export interface IConsequences {
  kernels: IKernel[];
  jobs: IJob[];
  kernels_text: string;
  jobs_text: string;
  saves: boolean;
  sessions_text: string;
  lost_sessions: ISession[];
  lost: string[];
}

/**
 * What to copy. Here is the computer that runs Jupyter, or the command.
 *
 * Source and destination mean what they mean for `cp -r`: a folder that exists
 * gets the sources, another name becomes theirs.
 */
export interface ICopyFiles {
  sources: string[];
  destination?: string;
  download?: boolean;
  /** Hosts: 0, 0,2-5, or all. One host sends the files on to the others. */
  hosts?: string;
  /** Replace files that exist. */
  overwrite?: boolean;
  /** Create the folder of the destination if it is missing. */
  make_folder?: boolean;
  agents_folder?: string;
}

/**
 * What was asked for, and how it went on each host.
 *
 * Where files would be overwritten, the operation fails with EXISTS, nothing
 * was changed, and `existing` has the first 100 of them.
 */
export interface ICopyResult {
  request: ICopyFiles;
  copies: IHostCopy[];
  existing: string[];
  existing_count: number;
}

/**
 * What a TPU costs, about: by a dated list price, in USD.
 *
 * Discounts, taxes, network traffic and additional disks are not in it. A TPU
 * is charged while it is READY, used or not. What a grant covers costs nothing
 * but its network traffic.
 */
export interface ICost {
  usd_per_hour: number | null;
  list_usd_per_hour: number | null;
  region: string;
  date: string;
  grant: string;
  since: string;
  usd: number | null;
}

/**
 * Chips to reserve for some days (calendar mode of Compute Engine). They are
 * billed from the first to the last day, used or not.
 */
export interface ICreateReservation {
  name: string;
  type: string;
  zone: string;
  /** How many chips. */
  chips: number;
  /** When it begins. */
  start: string;
  /** For how many days. */
  days: number;
  /** What the chips are used for: batch or serving. */
  workload?: 'batch' | 'serving';
  confirm_cost?: boolean;
  confirm_name?: string;
}

/**
 * A TPU to create. The zone defaults to gcloud's, the version to the type's
 * usual image.
 */
export interface ICreateTPU {
  /**
   * 1–40 lower-case letters, digits and hyphens, starting with a letter and not
   * ending with a hyphen
   */
  name: string;
  type: string;
  zone?: string | null;
  /** Runtime version (OS image). By default depends on the type. */
  version?: string | null;
  tier?: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  /**
   * What makes it: the Cloud TPU API (tpu) or Compute Engine (compute). By
   * default what has the type, and quota for it.
   */
  api?: 'compute' | 'tpu' | null;
  /**
   * How long a flex-start TPU runs before Google deletes it: 1 minute to 7
   * days. In seconds.
   */
  run_for?: number | null;
  /**
   * Size of each host's boot disk. Compute Engine only. In GB. By default 200.
   */
  disk_gb?: number | null;
  /**
   * The reservation to use: NAME, projects/PROJECT/reservations/NAME or a block
   * of it. Compute Engine only.
   */
  reservation?: string;
  /** VPC network. By default the project's. */
  network?: string | null;
  /** Subnetwork of the VPC network. */
  subnetwork?: string | null;
  /** Labels. */
  labels?: { [key: string]: string };
  once?: string;
  confirm_price?: boolean;
  max_price?: number | null;
  options?: INodeOptions;
  connect?: IConnectTPU | null;
  guard?: ISetGuard | null;
  sessions?: ISetSessions | null;
  home?: ISetHome | null;
}

/** A persistent disk that each host gets in addition to its boot disk. */
export interface IDataDisk {
  source: string;
  mode: 'read-only' | 'read-write';
}

/**
 * How it is deleted. `force` is required while it has TPUs: they are deleted,
 * too.
 */
export interface IDeleteQueued {
  force?: boolean;
  confirm_name?: string;
}

/** How a TPU is deleted; each is required while such run there. */
export interface IDeleteTPU {
  end_kernels?: boolean;
  end_jobs?: boolean;
  /**
   * save: save the variables of kernels first, and continue if that fails.
   * require: continue only if all are saved. skip: do not save them.
   */
  sessions?: 'require' | 'save' | 'skip';
  confirm_name?: string;
}

/** What became of a lock file of libtpu that was left over. */
export interface IDeletedLock {
  host: number;
  outcome: 'deleted' | 'gone' | 'held' | 'refused' | 'unknown';
  problem: IProblem | null;
}

/**
 * How a machine is forgotten.
 *
 * `end_kernels` and `end_jobs` are required while kernels or jobs run there.
 */
export interface IDetachMachine {
  end_kernels?: boolean;
  end_jobs?: boolean;
}

/**
 * The findings about a TPU, and about all its hosts, host by host; each has at
 * least one.
 *
 * Before there is a TPU, those about the project.
 */
export interface IDiagnosis {
  tpu: string;
  zone: string;
  emulated: boolean;
  healthy: boolean;
  findings: IFinding[];
}

/**
 * How a TPU is disconnected; `end_kernels` is required while kernels run there.
 */
export interface IDisconnectTPU {
  end_kernels?: boolean;
}

/**
 * A Python virtual environment on all hosts of a TPU, from which kernels run.
 */
export interface IEnvironment {
  /**
   * What uses the chips: JAX, or PyTorch (TorchTPU, with PyTorch for the CPU).
   * By default jax.
   */
  framework: 'jax' | 'torch' | null;
  /**
   * Packages to install in addition to JAX (or PyTorch), NumPy, matplotlib and
   * tqdm.
   */
  packages: string[];
  /** A requirements file of packages to install. */
  requirements: string | null;
  setup: IHostSetup;
  name: string;
  tpu: string;
  zone: string;
  state: 'failed' | 'making' | 'ready';
  python: string;
  jax: string;
  torch: string;
  path: string;
  python_path: string;
  versions: IHostVersions | null;
  asked: IConnectTPU | null;
  devices: number;
  platform: string;
  kernelspec: string;
  display_name: string;
  pod_kernelspec: string;
  pod_display_name: string;
  warm: IWarmKernel;
  problem: IProblem | null;
}

/** By which a kernel is started in an environment. */
export interface IEnvironmentKernelspec {
  tpu: string;
  zone: string;
  environment: string;
  kernelspec: string;
}

/** What an environment has exactly, so that another TPU can get the same. */
export interface IEnvironmentLock {
  /**
   * What uses the chips: JAX, or PyTorch (TorchTPU, with PyTorch for the CPU).
   * By default jax.
   */
  framework: 'jax' | 'torch' | null;
  /**
   * Packages to install in addition to JAX (or PyTorch), NumPy, matplotlib and
   * tqdm.
   */
  packages: string[];
  /** A requirements file of packages to install. */
  requirements: string | null;
  setup: IHostSetup;
  environment: string;
  text: string;
  python: string;
  tpu: string;
  type: string;
  time: string;
  emulated: boolean;
  problem: IProblem | null;
}

/** Something that could not be done for one TPU, and is retried. */
export interface IFailingTPU {
  tpu: string;
  zone: string;
  what: string;
  problem: IProblem;
  failures: number;
  since: string;
  retry_at: string;
}

/** A file that was not copied, and why. */
export interface IFileProblem {
  path: string;
  message: string;
}

/** The result of one check. */
export interface IFinding {
  check:
    | 'agent'
    | 'api'
    | 'asyncssh'
    | 'chips'
    | 'clock'
    | 'compute-api'
    | 'compute-permission'
    | 'compute-quota'
    | 'connection'
    | 'disk'
    | 'firewall'
    | 'holders'
    | 'image'
    | 'jax'
    | 'key'
    | 'lock'
    | 'login'
    | 'mcp'
    | 'numbers'
    | 'os-login'
    | 'permission'
    | 'ports'
    | 'project'
    | 'quota'
    | 'storage'
    | 'torch'
    | 'type'
    | 'variables'
    | 'versions';
  host: number | null;
  state: 'ok' | 'problem' | 'unknown' | 'warning';
  message: string;
  hint: string;
}

/** The project that is shown, and the health of what keeps it up to date. */
export interface IFleetStatus {
  project: string;
  emulated: boolean;
  version: string;
  problem: IProblem | null;
  storage: IProblem | null;
  loops: ILoopStatus[];
  failing: IFailingTPU[];
}

/** A Python that was on the hosts before jupyter-tpu. */
export interface IFoundPython {
  path: string;
  prefix: string;
  kind: '' | 'conda' | 'system' | 'uv' | 'venv';
  version: string;
  ipykernel: string;
  jax: string;
  installable: boolean;
  environment: string;
  name: string;
  missing: number[];
  different: number[];
  problem: string;
  base: boolean;
}

/** The Pythons on the hosts of a TPU. */
export interface IFoundPythons {
  pythons: IFoundPython[];
  asked: string;
  problems: string[];
}

/**
 * Which processes to end, and lock files to delete, so that the chips are free.
 */
export interface IFreeChips {
  holders: IHolderToEnd[];
  locks?: number[];
  /** Time from SIGTERM to SIGKILL. In seconds. */
  patience?: number;
}

/** How freeing went, and what holds chips of these hosts now. */
export interface IFreedChips {
  ended: IFreedHolder[];
  locks: IDeletedLock[];
  use: IChipUse;
  free: boolean;
}

/** What became of a process that held chips. */
export interface IFreedHolder {
  host: number;
  pid: number;
  outcome: 'ended' | 'gone' | 'held' | 'killed' | 'refused' | 'unknown';
  problem: IProblem | null;
}

/**
 * Chips that a project may use at no charge. Network traffic is charged all the
 * same.
 */
export interface IGrant {
  /** 1–40 letters, digits, hyphens, dots and underscores */
  name: string;
  project?: string;
  /** A type, such as v5litepod-8, or a generation, such as v5e. */
  types: string[];
  /** A zone of the grant. */
  zones: string[];
  /** on-demand, spot, reserved or flex-start. */
  tiers: ('flex-start' | 'on-demand' | 'reserved' | 'spot')[];
  /** How many chips at the same time. A v2-8 or v3-8 has 4. */
  chips: number;
  /** The last day of the grant, such as 2026-12-31. */
  until?: string;
}

/** A grant, and how much of it is in use. */
export interface IGrantUse {
  grant: IGrant;
  used: number | null;
  expired: boolean;
}

/** The guard of a TPU, and what it has seen last. */
export interface IGuard {
  action: 'delete' | 'stop';
  idle: number | null;
  max_cost: number | null;
  until: string;
  notice: number;
  phase: 'due' | 'ending' | 'watching';
  reason: '' | 'cost' | 'idle' | 'time';
  ends: string;
  busy: string[] | null;
  actor: 'host' | 'server';
  no_restart: string;
  problem: IProblem | null;
  google_deletes: string;
  google_problem: IProblem | null;
}

/** That a TPU was stopped by its guard. */
export interface IGuardStop {
  time: string;
  reason: '' | 'cost' | 'idle' | 'time';
  certain: boolean;
}

/** A process, as `ChipHolder` has it. */
export interface IHolderToEnd {
  host: number;
  pid: number;
  start: string;
}

/** The home folders of the TPUs of a name: of host 0. */
export interface IHome {
  tpu: string;
  zone: string;
  setting: IHomeSetting;
  there: boolean;
  saved: string;
  files: number;
  size: number;
  left_out: INotSaved[];
  left_out_count: number;
  doing: '' | 'forget' | 'restore' | 'save';
  done: number;
  total: number;
  last: IHomeOutcome | null;
}

/** What became of one save, restore or deletion. */
export interface IHomeOutcome {
  state:
    | 'cancelled'
    | 'empty'
    | 'failed'
    | 'forgotten'
    | 'restored'
    | 'same'
    | 'saved';
  at: string;
  saved: string;
  files: number;
  size: number;
  new: number;
  left_out: INotSaved[];
  left_out_count: number;
  kept: string[];
  kept_count: number;
  replaced: string[];
  replaced_count: number;
  problem: IProblem | null;
}

/** What was chosen for the TPUs of a name: the next one has it, too. */
export interface IHomeSetting {
  place: string;
  folders: string[];
  max_gb: number;
  seconds: number;
}

/** One VM of a TPU, numbered from 0. */
export interface IHost {
  index: number;
  internal_address: string;
  external_address: string;
  link: ILinkStatus;
}

/** The chips of one host. */
export interface IHostChips {
  host: number;
  devices: string[];
  holders: IChipHolder[];
  bookings: IChipBooking[];
  complete: boolean;
  lock_owner: string;
  problem: IProblem | null;
}

/** What was copied to one host, or from it. */
export interface IHostCopy {
  host: number;
  state: 'done' | 'failed';
  files: number;
  bytes: number;
  unchanged: number;
  targets: string[];
  problems: IFileProblem[];
  problem_count: number;
  problem: IProblem | null;
}

/** How the versions on a host differ from those on host 0. */
export interface IHostDifference {
  host: number;
  versions: string;
}

/** A file on a host. */
export interface IHostFile {
  path: string;
  size: number;
}

/** What is known of a job on one host. */
export interface IHostJob {
  host: number;
  state:
    | 'ended'
    | 'failed'
    | 'lost'
    | 'running'
    | 'starting'
    | 'stopping'
    | 'unknown';
  exit_code: number | null;
  cause: string;
  paused: string;
  pid: number;
  started: string;
  ended: string;
  restarted: boolean;
  leaving_since: string;
  silent_since: string;
  usual_gap: number;
  tail: string[];
  problem: IProblem | null;
  serving: IHostServing | null;
}

/** What is known of the chips of a host. */
export interface IHostLoad {
  host: number;
  chips: number;
  samples: ILoadSample[];
  bookings: IChipBooking[];
  message: string;
  errors: string[];
  problem: IProblem | null;
}

/** A run on one host. */
export interface IHostRun {
  host: number;
  state: 'connecting' | 'exited' | 'not-started' | 'running' | 'unknown';
  code: number | null;
  signal: string;
  cause: '' | 'abandoned' | 'stopped' | 'timeout';
  seconds: number | null;
  problem: IProblem | null;
}

/**
 * What is known of a server on one host. Rates: a second; None if it does not
 * say them.
 */
export interface IHostServing {
  state: 'healthy' | 'restarting' | 'starting' | 'unhealthy';
  since: string;
  problem: string;
  restarts: number;
  was_healthy: boolean;
  exposed: string;
  requests: number | null;
  tokens: number | null;
  waiting: number | null;
}

/** What every host gets in addition to Python and its packages. */
export interface IHostSetup {
  /** apt packages for the hosts. */
  apt: string[];
  /** Time zone of the hosts, such as Europe/Berlin. */
  timezone: string;
  /** Make zsh with oh-my-zsh the login shell of the hosts. */
  oh_my_zsh: boolean;
  /** A script to run once on each host, as the login user, who can use sudo. */
  script: string;
}

/** What was done on one host, or would be. */
export interface IHostShare {
  tpu: string;
  host: number;
  role: 'client' | 'server';
  state: 'done' | 'failed' | 'planned';
  steps: IShareStep[];
  problem: IProblem | null;
}

/** What was copied to or from one host. */
export interface IHostSync {
  host: number;
  written: number;
  deleted: number;
  size: number;
  transferred: number;
  problem: IProblem | null;
}

/**
 * Whether the hosts of a TPU had the same versions when that was last checked.
 */
export interface IHostVersions {
  time: string;
  different: IHostDifference[];
  unchecked: number[];
}

/** A search for a TPU. Its operation has the same id. */
export interface IHunt {
  id: string;
  name: string;
  state: 'failed' | 'found' | 'paused' | 'running' | 'stopped' | 'stopping';
  message: string;
  waiting: boolean;
  zone: string;
  request: IStartHunt;
  queued: boolean;
  candidates: IHuntCandidate[];
  attempts: IHuntAttempt[];
  attempted: number;
  next_attempt: string;
  problem: IProblem | null;
  created: string;
  ended: string;
}

/** One try to create a TPU. */
export interface IHuntAttempt {
  number: number;
  zone: string;
  type: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  api: 'compute' | 'tpu';
  state: 'cancelled' | 'failed' | 'found' | 'trying';
  started: string;
  ended: string;
  problem: IProblem | null;
  unattended: boolean;
}

/** A zone, type, tier and control plane that a hunt tries. */
export interface IHuntCandidate {
  zone: string;
  type: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  api: 'compute' | 'tpu';
  queued: boolean;
  version: string;
  cost: ICost;
  attempts: number;
  retry_at: string;
  problem: IProblem | null;
  ruled_out: boolean;
}

/** A package in an environment. */
export interface IInstalledPackage {
  name: string;
  version: string;
  requested: boolean;
  required: boolean;
}

/**
 * The cell that was running when its kernel ended without having been asked to.
 */
export interface IInterruptedCell {
  cell: string;
  kernel: string;
  ended: string;
  why: string;
}

/**
 * Google is about to stop hosts of a TPU, within seconds or minutes, and has
 * notified them.
 */
export interface IInterruption {
  kind: 'maintenance' | 'preemption';
  hosts: number[];
  noticed: string;
  checkpoints: ICheckpoint[];
}

/** A command that runs on hosts of a TPU. */
export interface IJob {
  id: string;
  tpu: string;
  zone: string;
  name: string;
  command: string[];
  cwd: string;
  environment: string;
  variables: string[];
  restart_with_tpu: boolean;
  end_together: boolean;
  serving: IServingSettings | null;
  created: string;
  state:
    | 'ended'
    | 'failed'
    | 'lost'
    | 'running'
    | 'starting'
    | 'stopped'
    | 'stopping'
    | 'unknown'
    | 'waiting';
  exit_code: number | null;
  notice: string;
  stopped: boolean;
  ended: string;
  attempts: IJobAttempt[];
}

/** One start of a job, on all its hosts. */
export interface IJobAttempt {
  number: number;
  created: string;
  hosts: IHostJob[];
}

/** A line of Python at which a process is, or from which it was called. */
export interface IJobFrame {
  file: string;
  line: number;
  function: string;
  text: string;
}

/** A line of a job's output on one host. */
export interface IJobLine {
  number: number;
  time: string;
  stream: 'err' | 'out';
  text: string;
  more: boolean;
}

/** A part of a job's output on one host. */
export interface IJobLog {
  host: number;
  attempt: number;
  lines: IJobLine[];
  oldest: number;
  next: number;
  last: number;
  partial_out: string;
  partial_err: string;
  complete: boolean;
}

/** Where a job is on one host. */
export interface IJobOnHost {
  host: number;
  state: string;
  exit_code: number | null;
  cause: string;
  leaving_since: string;
  silent: number | null;
  tail: string[];
  processes: IProcessPlace[];
  more: number;
  places: { [key: string]: string };
  queue: number | null;
  problem: IProblem | null;
}

/** Where a job stands on its hosts. */
export interface IJobWhere {
  job: string;
  tpu: string;
  zone: string;
  attempt: number;
  explanation: string[];
  hosts: IJobOnHost[];
}

/** How long a TPU is kept, even if its guard reaches a limit. */
export interface IKeepTPU {
  /** How long, from now. In seconds. */
  seconds?: number;
  confirm_name?: string;
}

/**
 * Whether an environment has a warm kernel: one that was started ahead, for the
 * next notebook.
 *
 * It has only imported ipykernel and holds no chip. It uses the memory that is
 * shown.
 */
export interface IKeepWarm {
  wanted?: boolean | null;
  /** Modules to import in it, too. They must not use the chips. */
  imports?: string[];
}

/** A kernel that runs on a host of a TPU. */
export interface IKernel {
  id: string;
  tpu: string;
  zone: string;
  host: number;
  environment: string;
  state: string;
  pid: number;
  started: string;
  last_activity: string;
  attached: boolean;
  holder: string;
  chips: boolean;
  booked: number[];
  hosts: string[];
  notebook: string;
  cell: string;
  problem: IProblem | null;
}

/** The state of the supervised SSH connection to one host. */
export type LinkState =
  'connecting' | 'down' | 'needs-attention' | 'silent' | 'up' | 'waiting';

export interface ILinkStatus {
  state: LinkState;
  since: string;
  problem: IProblem | null;
}

/** The chips of a host at one time. */
export interface ILoadSample {
  time: number;
  state: 'idle' | 'no_device' | 'no_port' | 'ok' | 'unreadable';
  chips: IChipLoad[];
  queue: number | null;
}

/** One thing that happened. */
export interface ILogLine {
  time: string;
  level: 'debug' | 'error' | 'info' | 'warning';
  process: string;
  text: string;
  tpu: string;
  operation: string;
}

/**
 * One of the loops that keep TPUs as they should be. A failure ends none of
 * them.
 */
export interface ILoopStatus {
  name: string;
  failing: boolean;
  failures: number;
  last_failure: string;
  last_error: string;
}

/** What attaching machines would connect to. */
export interface IMachineCheck {
  name: string;
  hosts: IMachineHost[];
}

/** One machine that would be connected to. */
export interface IMachineHost {
  ssh: string;
  address: string;
  port: number;
  user: string;
  host_key: string;
  known: boolean;
}

/** How Compute Engine makes a TPU type. */
export interface IMachineShape {
  machine_type: string;
  topology: string;
  image: string;
  zones: string[];
}

/** Maintenance of a TPU by its cloud, which ends all that runs there. */
export interface IMaintenance {
  ongoing: boolean;
  scheduled: boolean;
  start: string;
  end: string;
  can_reschedule: boolean;
}

/**
 * A line of a program, and the memory that it, and what it called, has
 * allocated.
 */
export interface IMemoryLine {
  line: string;
  function: string;
  file: string;
  bytes: number;
  count: number;
  calls: IMemoryLine[];
}

/** What fills the memory of JAX's devices in a program (pprof, as a tree). */
export interface IMemoryProfile {
  host: number;
  kernel: string;
  notebook: string;
  problem: IProblem | null;
  devices: { [key: string]: number };
  others: { [key: string]: number };
  bytes: number;
  lines: IMemoryLine[];
}

/** Memory profiles of the kernels of a TPU. */
export interface IMemoryProfiles {
  tpu: string;
  zone: string;
  emulated: boolean;
  profiles: IMemoryProfile[];
}

/**
 * The project of notebooks whose kernels run on a host, which gets what is
 * changed here, and then the other hosts of its TPU.
 */
export interface IMirroredProject {
  folder: string;
  remote: string;
  host: number;
  state: 'copying' | 'current' | 'failed';
  problem: IProblem | null;
  result: ISyncResult | null;
}

/** A variable that is not in a session, and why. */
export interface IMissingVariable {
  name: string;
  why: string;
}

/** A server of a model on a TPU. */
export interface IModelServer {
  id: string;
  tpu: string;
  zone: string;
  name: string;
  command: string[];
  environment: string;
  host: number;
  hosts: number[];
  port: number;
  state:
    | 'failed'
    | 'healthy'
    | 'restarting'
    | 'starting'
    | 'stopped'
    | 'stopping'
    | 'unhealthy'
    | 'unknown'
    | 'waiting';
  since: string;
  url: string;
  tunnel: string;
  requests: number | null;
  tokens: number | null;
  waiting: number | null;
  restarts: number;
  cause: string;
  problem: IProblem | null;
  start_on_request: boolean;
  restart_with_tpu: boolean;
}

/** A network compared with what it should have. */
export interface INetworkSetup {
  project: string;
  network: string;
  subnetwork: string;
  region: string;
  emulated: boolean;
  sources: string[];
  found: string[];
  changes: string[];
  blocked: string[];
  warnings: string[];
  dry_run: boolean;
}

/** What a new TPU has beyond its type, image and network. */
export interface INodeOptions {
  /**
   * Shape of the slice, such as 2x2x4; the type may then be v4, v5litepod, v5p
   * or v6e.
   */
  topology: string;
  /**
   * No external addresses. Connecting then uses IAP, or a machine in the same
   * network.
   */
  internal_ips: boolean;
  /**
   * Email of the account with which programs on the hosts call Google. By
   * default the project's.
   */
  service_account: string;
  /**
   * What that account may do, such as storage-ro. By default cloud-platform.
   */
  scopes: string[];
  /** A persistent disk to attach. */
  data_disks: IDataDisk[];
  /** Network tags, for firewall rules. */
  tags: string[];
  /** Metadata of the hosts. */
  metadata: { [key: string]: string };
  /** A script that each host runs as root at each start. */
  startup_script: string;
  /** A description, for people. */
  description: string;
  /** Boot with Secure Boot. */
  secure_boot: boolean;
}

/**
 * What a TPU does, whichever cloud it is in. A cloud's own word is in
 * `cloud_state`.
 */
export type NodeState =
  | 'CREATING'
  | 'DELETING'
  | 'FAILED'
  | 'HIDDEN'
  | 'PREEMPTED'
  | 'READY'
  | 'REPAIRING'
  | 'RESTARTING'
  | 'STARTING'
  | 'STOPPED'
  | 'STOPPING'
  | 'TERMINATED'
  | 'UNKNOWN';

/** A file or folder that was left out, and why. */
export interface INotCopied {
  path: string;
  size: number;
  why: string;
  hosts: number[];
}

/** A file or folder of the home that is not in the bucket, and why. */
export interface INotSaved {
  path: string;
  why: string;
}

/** A web app of a host to open in the browser, on an origin of its own. */
export interface IOpenApp {
  port: number;
  /** Number of the host. */
  host?: number;
  /** The page to open. */
  path?: string;
  name?: string;
  /**
   * Let the page connect and send forms to any address, including programs on
   * the browser's computer. Only for apps you trust.
   */
  allow_external?: boolean;
}

/** A TensorBoard to open, with the xprof plug-in. */
export interface IOpenTensorBoard {
  /** A folder on the host, or gs://BUCKET/FOLDER. */
  logdir: string;
  /** Number of the host. */
  host?: number;
  /**
   * Open a folder that does not exist yet. TensorBoard shows it when there are
   * logs.
   */
  allow_missing?: boolean;
}

/** A tunnel to open: a local port that is forwarded to a port of a host. */
export interface IOpenTunnel {
  port: number;
  /**
   * Listen on this port. By default the port on the host if it is free, else
   * any.
   */
  local_port?: number | null;
  /** Number of the host. */
  host?: number;
  /** The local address to listen on. */
  address?: string;
}

/**
 * Anything that takes longer than a second, with progress, a log and an end.
 */
export interface IOperation {
  id: string;
  kind:
    | 'compile'
    | 'connect'
    | 'copy'
    | 'create'
    | 'delete'
    | 'detach'
    | 'disconnect'
    | 'environment'
    | 'guard'
    | 'hunt'
    | 'plan'
    | 'profile'
    | 'queue'
    | 'ray'
    | 'report'
    | 'restart'
    | 'restore'
    | 'restore-home'
    | 'save'
    | 'save-home'
    | 'serve'
    | 'share'
    | 'start'
    | 'stop'
    | 'sync'
    | 'tensorboard'
    | 'unqueue';
  tpu: string;
  zone: string;
  state: 'cancelled' | 'done' | 'failed' | 'running';
  message: string;
  progress: number | null;
  steps: IStep[];
  log: string[];
  app: string;
  problem: IProblem | null;
  cancellable: boolean;
  undeleted: '' | 'kept' | 'retrying';
  result: { [key: string]: unknown } | null;
  created: string;
  ended: string;
}

/** Something that one host has written. */
export interface IOutputPart {
  host: number;
  stream: 'stderr' | 'stdout';
  data: string;
}

/** What jupyter-tpu has done on this computer, the oldest line first. */
export interface IOwnLog {
  lines: ILogLine[];
}

/** What one owner has. */
export interface IOwnerUsage {
  owner: string;
  mine: boolean;
  tpus: number;
  chips: number;
  blocked_chips: number;
  usd_per_hour: number;
  usd: number;
  unpriced: number;
}

/** The body of a request to pass tokens on. */
export interface IPassTokens {
  names: string[];
  agents?: boolean;
}

/** What a TPU would cost at most, for an hour: carry it out by its id. */
export interface IPlan {
  id: string;
  who: string;
  request: IPlanTPU;
  created: string;
  expires: string;
  name: string;
  type: string;
  zone: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  meaning: string;
  hunt: boolean;
  emulated: boolean;
  usd_per_hour: number;
  price_unknown: boolean;
  most: number;
  guard: string;
  state: 'approved' | 'asked' | 'done' | 'planned' | 'refused';
  outside: string;
  operation: string;
}

/**
 * A TPU to plan: what it would cost at most is computed, and nothing is
 * created.
 */
export interface IPlanTPU {
  tpu: ICreateTPU;
  zones?: string[];
  types?: string[];
  tiers?: ('flex-start' | 'on-demand' | 'reserved' | 'spot')[];
  /** Delete the TPU after this time. In seconds. By default 1h. */
  time?: number | null;
  /** Delete the TPU before it has cost more than this. In USD. */
  max_cost?: number | null;
  who?: string;
}

/**
 * Prices per chip and hour, in USD. What is about to be created costs so much,
 * about.
 */
export interface IPriceList {
  read: string;
  prices: IChipPrice[];
  unknown: string[];
}

/** The body of every error answer, and why something needs attention. */
export interface IProblem {
  message: string;
  reason: Reason;
  hint: string;
  retry_after: number | null;
  scope: string;
  field: string;
}

/** A process of a job, and where it is. */
export interface IProcessPlace {
  pid: number;
  command: string;
  chips: boolean;
  state: string;
  call: string;
  source: 'faulthandler' | 'proc' | 'py-spy';
  problem: string;
  frames: IJobFrame[];
}

/**
 * A trace of a TPU: TensorBoard's folder, the name of the run in it, and each
 * host's part.
 */
export interface IProfile {
  tpu: string;
  zone: string;
  emulated: boolean;
  logdir: string;
  run: string;
  host: number;
  traces: ITrace[];
}

/**
 * A trace of all hosts of a TPU at once, to be shown in TensorBoard (xprof).
 */
export interface IProfileTPU {
  /** Duration of the trace, at most two minutes. In seconds. */
  seconds?: number;
  /** Hosts: all, 0, or 0,2-5. */
  hosts?: string;
  kernels?: string[];
  /**
   * Also trace programs that are not kernels, such as jobs, which called
   * jax.profiler.start_server(PORT).
   */
  port?: number | null;
  /** A folder on the hosts. By default ~/.jupyter-tpu/traces. */
  logdir?: string;
}

/**
 * Request TPUs. They are created when there is capacity for all of them,
 * perhaps after days.
 */
export interface IQueueTPU {
  tpu: ICreateTPU;
  /** Number of TPUs: NAME-0, NAME-1 …, as slices of one job. */
  node_count?: number;
  /** The name of the reservation. By default the project's. */
  reservation?: string;
  /** When to give up. By default never. */
  valid_until?: string;
}

/** A request for TPUs that waits until there is capacity for them. */
export interface IQueuedResource {
  name: string;
  zone: string;
  project: string;
  emulated: boolean;
  state: string;
  meaning: string;
  tpus: string[];
  type: string;
  version: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  run_for: number | null;
  reservation: string;
  created: string;
  valid_until: string;
  can_reset: boolean;
  has_tpus: boolean;
  owner: string;
  not_yours: boolean;
  forgotten: boolean;
  problem: IProblem | null;
}

export interface IQueuedResources {
  queued: IQueuedResource[];
  problem: IProblem | null;
}

/** What a request would create, and what that costs. */
export interface IQuote {
  name: string;
  zone: string;
  type: string;
  meaning: string;
  version: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  chips: number;
  hosts: number;
  emulated: boolean;
  cost: ICost;
  question: string;
  warning: string;
  uncovered: string;
  zone_reason: string;
  api: 'compute' | 'tpu';
  api_reason: string;
  other_form: string;
}

/** The Ray cluster of a TPU. */
export interface IRay {
  tpu: string;
  zone: string;
  state: 'failed' | 'running' | 'starting' | 'stopped' | 'stopping' | 'unknown';
  job: string;
  environment: string;
  version: string;
  address: string;
  dashboard_port: number;
  hosts: IRayHost[];
  problem: IProblem | null;
}

/** One host of a TPU as a node of its Ray cluster. */
export interface IRayHost {
  host: number;
  address: string;
  state: 'alive' | 'missing';
  chips: number;
  processors: number;
}

/** Why something failed; the words of the REST contract. */
export type Reason =
  | 'BUDGET'
  | 'CANCELLED'
  | 'CHIPS_HELD'
  | 'CONFLICT'
  | 'CPU_FALLBACK'
  | 'DISK_FULL'
  | 'ENVIRONMENT'
  | 'EXISTS'
  | 'HOST_KEY'
  | 'INTERNAL'
  | 'INTERRUPTED'
  | 'INVALID'
  | 'JOBS_RUNNING'
  | 'KERNELS_RUNNING'
  | 'KEY_FILE'
  | 'LOGIN_SHELL'
  | 'NOT_FOUND'
  | 'NOT_YOURS'
  | 'NO_CAPACITY'
  | 'NO_CREDENTIALS'
  | 'NO_FOLDER'
  | 'NO_IPYKERNEL'
  | 'NO_PROJECT'
  | 'NO_PYTHON'
  | 'PERMISSION'
  | 'PRICE'
  | 'QUOTA'
  | 'RATE_LIMITED'
  | 'STILL_BILLED'
  | 'TIMEOUT'
  | 'UNAVAILABLE'
  | 'UNREACHABLE';

/** What an hour of a type costs in one region, in USD: a dated list price. */
export interface IRegionPrice {
  region: string;
  on_demand: number;
  spot: number | null;
  date: string;
  flex_start: number | null;
}

/**
 * How an environment is removed; `end_kernels` is required while its kernels
 * run.
 */
export interface IRemoveEnvironment {
  end_kernels?: boolean;
}

/**
 * How a guard is removed. The TPU's name is required where it is another
 * person's.
 */
export interface IRemoveGuard {
  confirm_name?: string;
}

/**
 * The key is removed from your Google account and from the project's metadata.
 */
export interface IRemoveSSHKey {
  dry_run?: boolean;
}

/**
 * How a TPU is replaced: it is deleted with its disk, and created again as it
 * was.
 */
export interface IReplaceTPU {
  end_kernels?: boolean;
  end_jobs?: boolean;
  /**
   * save: save the variables of kernels first, and continue if that fails.
   * require: continue only if all are saved. skip: do not save them.
   */
  sessions?: 'require' | 'save' | 'skip';
  confirm_price?: boolean;
  max_price?: number | null;
}

/** What replacing a TPU would do; nothing is changed yet. */
export interface IReplacement {
  kernels: IKernel[];
  jobs: IJob[];
  kernels_text: string;
  jobs_text: string;
  saves: boolean;
  sessions_text: string;
  lost_sessions: ISession[];
  lost: string[];
  request: ICreateTPU;
  cost: ICost;
  question: string;
  restored: string[];
}

/**
 * What is wrong with a host of a TPU of Compute Engine. The host ends at once.
 */
export interface IReportFault {
  /** The number of the host. */
  host?: number;
  /** What is wrong: chip-error, slow or wrong-results. */
  fault?: 'chip-error' | 'slow' | 'wrong-results';
  /** What you have seen, for Google. */
  about?: string;
  end_kernels?: boolean;
  end_jobs?: boolean;
  confirm_name?: string;
}

/** What a reservation would be and cost. Nothing is reserved yet. */
export interface IReservationQuote {
  chips: number;
  start: string;
  end: string;
  days: number;
  list_usd: number | null;
  emulated: boolean;
  question: string;
}

/**
 * Capacity that the project has reserved, or will have for some days (calendar
 * mode).
 */
export interface IReservationView {
  name: string;
  zone: string;
  type: string;
  chips: number | null;
  used: number | null;
  state: string;
  start: string;
  end: string;
  future: boolean;
  use: string;
}

/** How it is put back into the queue. */
export interface IResetQueued {
  confirm_name?: string;
}

/**
 * How a kernel is restarted with its variables. If they can't be saved, it is
 * not restarted.
 */
export interface IRestartKernel {
  seconds?: number;
}

/** Into which kernel a session is put. */
export interface IRestoreSession {
  kernel: string;
  /** Replace variables of the same names. */
  overwrite?: boolean;
  /** Wait this long for a running cell. In seconds. */
  seconds?: number;
}

/** A command on hosts of a TPU. */
export interface IRun {
  id: string;
  tpu: string;
  zone: string;
  command: string[];
  state: 'done' | 'running';
  code: number | null;
  created: string;
  hosts: IHostRun[];
}

/** More standard input for a run, the same on all its hosts. */
export interface IRunInput {
  data?: string;
  end?: boolean;
}

/** What a run has written from an offset on, in the order in which it came. */
export interface IRunOutput {
  run: IRun;
  start: number;
  next: number;
  output: IOutputPart[];
  ended: boolean;
}

/** One place that lets the key log in. */
export interface ISSHKeyPlace {
  user: string;
  until: string;
}

/** The key that jupyter-tpu uses for TPUs, and what lets it log in. */
export interface ISSHKeyStatus {
  project: string;
  emulated: boolean;
  fingerprint: string;
  path: string;
  user: string;
  os_login: boolean;
  account: string;
  in_account: ISSHKeyPlace | null;
  in_project: ISSHKeyPlace | null;
  changes: string[];
  warnings: string[];
}

/** Which kernels of a TPU are saved now, and how. */
export interface ISaveSessions {
  kernels?: string[];
  /** The name of the session. By default that of the notebook. */
  name?: string;
  /**
   * Save in this bucket: gs://BUCKET/FOLDER. computer: copy it to this
   * computer. By default what was chosen for the TPU, else the disk of the
   * host.
   */
  place?: string | null;
  /** Do not copy a session to this computer that is larger. In GB. */
  max_gb?: number | null;
  /** Replace a session that another kernel has saved. */
  overwrite?: boolean;
  /** Wait this long for a running cell, and for the save. In seconds. */
  seconds?: number;
}

/** How a job that is a server is looked after; see `StartModelServer`. */
export interface IServingSettings {
  port: number;
  health: string;
  metrics: string;
  unhealthy_limit: number;
  shared: boolean;
  restart_together: boolean;
  start_on_request: boolean;
  hold_limit: number;
  max_price: number | null;
  confirm_price: boolean;
}

/** The saved variables of a notebook's kernel. */
export interface ISession {
  id: string;
  name: string;
  tpu: string;
  zone: string;
  type: string;
  emulated: boolean;
  place: string;
  host: number;
  hosts: number;
  kernel: string;
  notebook: string;
  saved: string;
  expires: string;
  size: number;
  variables: number;
  missing: IMissingVariable[];
  missing_count: number;
  python: string;
  jax: string;
  billed: boolean;
  checked: string;
  interrupted: IInterruptedCell | null;
  problem: IProblem | null;
}

/** The sessions that kernels of a TPU can restore. */
export interface ISessionList {
  setting: ISessionSetting | null;
  sessions: ISession[];
  problems: IProblem[];
}

/** What became of one kernel. */
export interface ISessionOutcome {
  kernel: string;
  notebook: string;
  host: number;
  state: 'busy' | 'empty' | 'failed' | 'restored' | 'saved' | 'waiting';
  session: string;
  name: string;
  place: string;
  variables: number;
  size: number;
  new: number;
  missing: IMissingVariable[];
  missing_count: number;
  notes: string[];
  problem: IProblem | null;
}

/** What an operation did with the variables of kernels. */
export interface ISessionResult {
  kernels: ISessionOutcome[];
}

/** What was chosen for the kernels of a TPU. New kernels have it. */
export interface ISessionSetting {
  automatic: boolean;
  place: string;
  max_gb: number;
  seconds: number;
  keep_days: number;
}

/**
 * When a TPU stops or deletes itself: at the first of these limits, of which
 * one is needed.
 */
export interface ISetGuard {
  /** "delete": delete it with its disk instead of stopping it. */
  action?: 'delete' | 'stop';
  /**
   * Stop it after this time without a running cell, job, terminal or other
   * program. In seconds.
   */
  idle?: number | null;
  /** Stop it when its cost since creation reaches about this amount. In USD. */
  max_cost?: number | null;
  /** Stop it at this time. */
  until?: string;
  /** Announce it this long before, at most one hour. In seconds. */
  notice?: number;
  confirm_name?: string;
}

/** Which folders of a TPU's home are kept, and where. */
export interface ISetHome {
  /** Keep them in this bucket: gs://BUCKET/FOLDER. */
  place: string;
  folders?: string[];
  /** Save at most this much: small files, then those changed last. In GB. */
  max_gb?: number;
  /** Save when no file has changed for this time. In seconds. */
  seconds?: number;
  confirm_name?: string;
}

export interface ISetLogging {
  enabled: boolean;
}

/** Where the variables of a TPU's kernels are saved, and when. */
export interface ISetSessions {
  automatic?: boolean;
  /**
   * Save in this bucket: gs://BUCKET/FOLDER. It outlives the TPU. computer:
   * copy what is saved to this computer. By default the disk of the host, which
   * outlives a stop.
   */
  place?: string;
  /** Do not copy a session to this computer that is larger. In GB. */
  max_gb?: number;
  /** Save when no cell has run for this time. In seconds. */
  seconds?: number;
  /** Delete a session when it was not saved for this time. In days. */
  keep_days?: number;
  confirm_name?: string;
}

/** What a network should have. */
export interface ISetUpNetwork {
  /** 1–63 lower-case letters, digits and hyphens, beginning with a letter */
  network?: string;
  /** Its name. By default the network's own in the region. */
  subnetwork?: string | null;
  zone?: string | null;
  /**
   * Internal addresses of a new subnetwork, such as 10.0.0.0/20. By default a
   * free range.
   */
  range?: string | null;
  /**
   * Who may use SSH: an IPv4 address or range. By default this computer, if a
   * TPU is connected.
   */
  sources?: string[];
  /** Anyone on the internet may try to log in (0.0.0.0/0). */
  anywhere?: boolean;
  /** They may also use mosh (UDP 60000-61000). */
  mosh?: boolean;
  /**
   * SSH through Identity-Aware Proxy, for TPUs without external addresses.
   * Other addresses may use SSH only with --source.
   */
  iap?: boolean;
  /** Remove earlier addresses from the rules that this command created. */
  replace?: boolean;
  /** Only show what would be done. */
  dry_run?: boolean;
}

/** A folder of host 0 that the other hosts get, at the same path. */
export interface IShareFolder {
  folder?: string;
  /** Share it with these TPUs of the zone, too. */
  tpus?: string[];
  /**
   * Stop sharing the folder with the other hosts, or (--with) with the hosts of
   * OTHER. Its files stay on host 0.
   */
  remove?: boolean;
  /** Only show what would be done on each host. */
  dry_run?: boolean;
}

/** How sharing a folder went, or what it would do. */
export interface IShareResult {
  request: IShareFolder;
  path: string;
  hosts: IHostShare[];
}

/** One thing that is done on a host, as root where that is needed. */
export interface IShareStep {
  text: string;
  content: string;
}

/** A folder that hosts share. */
export interface ISharedFolder {
  path: string;
  tpu: string;
  hosts: ISharingState[];
}

/** The shared folders of a TPU. */
export interface ISharedFolders {
  folders: ISharedFolder[];
  problems: string[];
  time: string;
}

/** A shared folder on one host, as that says now. */
export interface ISharingState {
  tpu: string;
  host: number;
  role: 'client' | 'server';
  mounted: boolean;
  problem: string;
}

/**
 * A kernel in the kernel pickers that runs each cell on all hosts of several
 * TPUs.
 */
export interface ISlicesKernel {
  tpu: string;
  zone: string;
  environment: string;
  slices: string[];
  hosts: number;
  kernelspec: string;
  display_name: string;
}

/** One TPU in the ledger: what it may cost, and has cost. */
export interface ISpending {
  id: string;
  who: string;
  plan: string;
  tpu: string;
  zone: string;
  type: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  usd_per_hour: number;
  most: number;
  ends: string;
  usd: number;
  usd_today: number;
  state: 'asked' | 'ended' | 'ready' | 'stopped';
  created: string;
  shortened: boolean;
}

/** For which chips of a host there is a kernel in Jupyter's kernel pickers. */
export interface ISplitChips {
  environment?: string;
  /** How many chips each kernel gets. 0: remove these kernels. */
  each?: number;
}

/**
 * A TPU to search for: in each of the zones, as each of the types, in each of
 * the tiers, and by each of Google's control planes that offers it.
 */
export interface IStartHunt {
  tpu: ICreateTPU;
  zones?: string[];
  types?: string[];
  tiers?: ('flex-start' | 'on-demand' | 'reserved' | 'spot')[];
  /** Begin no attempt after this time. */
  deadline?: string;
  /**
   * Let each attempt wait in Google's queue, even while this computer is off.
   * By default if the deadline is more than 4 hours away.
   */
  queued?: boolean | null;
  /**
   * In a hunt that waits in the queue, also try each zone, type and tier
   * without it.
   */
  direct?: boolean;
  /** Begin again each time Google preempts the TPU, until you stop the hunt. */
  again?: boolean;
  /**
   * For an existing TPU of this name: begin when Google preempts it, again and
   * again.
   */
  when_preempted?: boolean;
}

/** A command to run as a job. */
export interface IStartJob {
  command: string[];
  /** What to call the job. By default the program's name. */
  name?: string;
  /** Hosts: all, 0, or 0,2-5. */
  hosts?: string;
  /**
   * Folder on the hosts, absolute or relative to the home folder. By default
   * the home folder.
   */
  cwd?: string;
  /**
   * Find Python and programs of this environment first. By default "default",
   * if the TPU has it.
   */
  environment?: string | null;
  variables?: { [key: string]: string };
  /**
   * Start it again after the TPU is restarted, or created again after a
   * preemption.
   */
  restart_with_tpu?: boolean;
  /**
   * If the job fails on one host, end it on the other hosts, too. They may wait
   * for the failed host.
   */
  end_together?: boolean;
  who?: string;
}

/**
 * A server of a model to start on a TPU: a command, vLLM, or a Ray Serve
 * application.
 */
export interface IStartModelServer {
  command?: string[];
  /** Serve this model with vLLM. Further arguments are vLLM's. */
  vllm?: string;
  /** Run this application with Ray Serve, such as module:app. */
  ray?: string;
  /**
   * The port it listens on, on the host's loopback address. The command gets it
   * as the variable PORT. By default 8000 with --vllm and --ray.
   */
  port?: number | null;
  /**
   * It is healthy when this path answers with status 2xx or 3xx. By default
   * /health of vLLM, /-/healthz of Ray; else any answer to / below 500.
   */
  health?: string;
  /**
   * Path of its Prometheus metrics (requests, tokens, queue); '' for none. By
   * default /metrics, if it is there.
   */
  metrics?: string | null;
  /** A name for it. By default the program's name, or the model's. */
  name?: string;
  /**
   * Hosts: all, 0, or 0,2-5. The local port is forwarded to the first of them.
   * By default all; 0 with --vllm and --ray.
   */
  hosts?: string;
  /**
   * Folder on the hosts, absolute or relative to the home folder. By default
   * the home folder.
   */
  cwd?: string;
  /**
   * Find Python and programs of this environment first. By default "default",
   * if the TPU has it.
   */
  environment?: string | null;
  variables?: { [key: string]: string };
  /**
   * The local port that is forwarded to it. By default the same number if it is
   * free, else any.
   */
  local_port?: number | null;
  tunnel?: boolean;
  /** Restart it after it has not answered for so long; 0: never. In seconds. */
  unhealthy_limit?: number;
  /**
   * When it ends on one of several hosts, restart it on all of them, or on that
   * host alone.
   */
  restart_together?: boolean;
  /**
   * Start it again after the TPU is restarted, or created again after a
   * preemption.
   */
  restart_with_tpu?: boolean;
  /**
   * While the TPU is stopped, a request to the local port starts it. Needs a
   * running Jupyter server, and --max-price or your consent outside of grants.
   */
  start_on_request?: boolean;
  /**
   * How long a request waits for the TPU's start before it is answered with
   * 503. In seconds.
   */
  hold_limit?: number;
  /** Requests start the TPU only if it costs at most so many USD an hour. */
  max_price?: number | null;
  confirm_price?: boolean;
  who?: string;
}

/** A Ray cluster to start on all hosts of a TPU. */
export interface IStartRay {
  /** The environment with Ray. */
  environment?: string;
  /** Install Ray in the environment, on all hosts, if it is missing there. */
  install?: boolean;
}

/** A command to run on hosts of a TPU. */
export interface IStartRun {
  command: string[];
  /** Hosts: all, 0, or 0,2-5. */
  hosts?: string;
  /**
   * Folder on the hosts, absolute or relative to the home folder. By default
   * the home folder.
   */
  cwd?: string;
  /** Stop it after this time. In seconds. */
  timeout?: number | null;
  /**
   * Find Python and programs of this environment first. By default "default",
   * if the TPU has it.
   */
  environment?: string | null;
  input?: boolean;
  stop_unwatched?: number | null;
  who?: string;
}

/** What a stopped TPU may cost when it is started again. */
export interface IStartTPU {
  confirm_price?: boolean;
  max_price?: number | null;
  confirm_name?: string;
}

/** One step of an operation, in words that a user understands. */
export interface IStep {
  title: string;
  state: 'done' | 'failed' | 'running' | 'skipped' | 'waiting';
  hosts_done: number;
  hosts: number;
}

/** How to stop a job. */
export interface IStopJob {
  /** Time from SIGTERM to SIGKILL. In seconds. */
  patience?: number;
}

/** How a TPU is stopped; each is required while such run there. */
export interface IStopTPU {
  end_kernels?: boolean;
  end_jobs?: boolean;
  /**
   * save: save the variables of kernels first, and continue if that fails.
   * require: continue only if all are saved. skip: do not save them.
   */
  sessions?: 'require' | 'save' | 'skip';
  confirm_name?: string;
}

/**
 * Ends the attempts to delete a TPU; `keep_tpu` is required: it stays, and is
 * billed.
 */
export interface IStopTrying {
  keep_tpu?: boolean;
}

/**
 * A file that was not copied, because the target's version would be lost
 * unseen.
 *
 * `changed` on both sides since the last sync; `different`, and they never were
 * the same; `deleted` in the source, and changed in the target. Times are of
 * the last change, "" where the file does not exist.
 */
export interface ISyncConflict {
  path: string;
  kind: 'changed' | 'deleted' | 'different';
  here: string;
  there: string;
  hosts: number[];
}

/** How many paths there are of each kind, over all hosts. */
export interface ISyncCounts {
  files: number;
  written: number;
  deleted: number;
  conflicts: number;
  newer: number;
  not_copied: number;
}

/** What to sync. Here is the computer that runs Jupyter, or the command. */
export interface ISyncProject {
  folder: string;
  /**
   * The folder on the TPU, absolute or relative to the home folder. By default
   * the local folder's name.
   */
  remote?: string;
  /** Copy from the TPU to here. */
  pull?: boolean;
  /** Number of the host to copy from. */
  host?: number;
  /**
   * When copying from the TPU: also delete what was deleted there. To the TPU:
   * also if the local folder is empty.
   */
  delete?: boolean;
  /** Also replace files that were changed in the target. */
  overwrite?: boolean;
  /** Only these files and folders in it. */
  only?: string[];
  /** Only show what would be copied. */
  dry_run?: boolean;
  /** Continue, and copy each change. */
  watch?: boolean;
  /** Leave out files larger than this. In MB. */
  max_file?: number;
  /** Refuse folders larger than this. In MB. */
  max_total?: number;
  agents_folder?: string;
}

/** How a sync went, or its last round. Lists have at most 200 entries. */
export interface ISyncResult {
  folder: string;
  remote: string;
  pull: boolean;
  dry_run: boolean;
  hosts: IHostSync[];
  counts: ISyncCounts;
  written: string[];
  deleted: string[];
  conflicts: ISyncConflict[];
  newer: string[];
  not_copied: INotCopied[];
  rounds: number;
  ended: string;
}

/** A Cloud TPU node: one TPU VM, or a pod slice of several. */
export interface ITPU {
  name: string;
  zone: string;
  project: string;
  id: string;
  type: string;
  meaning: string;
  state: NodeState;
  cloud_state: string;
  health: string;
  version: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  run_for: number | null;
  run_ends: string;
  emulated: boolean;
  attached: boolean;
  created: string;
  ended: string;
  cost: ICost;
  chips: number;
  hosts: IHost[];
  connection: ConnectionState;
  environments: IEnvironment[];
  kernels: number;
  projects: IMirroredProject[];
  shares: ISharedFolders | null;
  guard: IGuard | null;
  guard_stop: IGuardStop | null;
  maintenance: IMaintenance | null;
  interruption: IInterruption | null;
  sessions: ISessionSetting | null;
  home: IHome | null;
  problem: IProblem | null;
  advice: string;
  owner: string;
  not_yours: boolean;
  forgotten: boolean;
  agents_may_use: boolean;
  planned_by: string;
  operations: string[];
  labels: { [key: string]: string };
  queued: string;
  api: 'compute' | 'tpu';
  network: string;
  subnetwork: string;
  options: INodeOptions;
  details: { [key: string]: unknown };
}

export interface ITPUList {
  tpus: ITPU[];
  problem: IProblem | null;
}

/** Memory and load of the chips of a TPU, host by host. */
export interface ITPULoad {
  tpu: string;
  zone: string;
  type: string;
  emulated: boolean;
  hosts: IHostLoad[];
  next: number;
}

export interface ITPULogging {
  tpu: string;
  zone: string;
  project: string;
  emulated: boolean;
  enabled: boolean;
  filter: string;
  usd_per_gib: number;
  free_gib: number;
  price_date: string;
}

/**
 * A variable that kernels, commands and jobs on TPUs get when they are started.
 */
export interface IToken {
  name: string;
  source: string;
  hint: string;
  agents: boolean;
}

/** How one program of a host was traced. */
export interface ITrace {
  host: number;
  kernel: string;
  notebook: string;
  state: 'done' | 'failed' | 'idle';
  problem: IProblem | null;
  path: string;
  bytes: number;
  began: number;
  ended: number;
  kernel_idle: boolean;
}

/**
 * A local port that is forwarded to a port of a host; it survives link breaks
 * and restarts.
 */
export interface ITunnel {
  id: string;
  tpu: string;
  zone: string;
  host: number;
  port: number;
  local_port: number;
  address: string;
  local_port_reason: string;
  state: 'elsewhere' | 'needs-attention' | 'open' | 'taken' | 'waiting';
  since: string;
  problem: IProblem | null;
  connections: number;
  sent: number;
  received: number;
  compressed: boolean;
}

/** All TPUs and queued resources of some projects. */
export interface IUsage {
  me: string;
  projects: string[];
  emulated: boolean;
  chips: number;
  tpus: IUsedTPU[];
  owners: IOwnerUsage[];
  problems: IProblem[];
}

/** A TPU, or a queued resource with the TPUs that it asks for. */
export interface IUsedTPU {
  kind: 'queued' | 'tpu';
  name: string;
  zone: string;
  project: string;
  type: string;
  meaning: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  state: string;
  advice: string;
  chips: number;
  holds: '' | 'chips' | 'quota';
  owner: string;
  owner_source: '' | 'label' | 'ssh-keys';
  mine: boolean;
  created: string;
  cost: ICost;
  connected: boolean;
  forgotten: boolean;
}

/** Where an app will be shown. */
export interface IVisitApp {
  framed_by?: string;
}

/** A kernel on host 0 that was started ahead, for the next notebook. */
export interface IWarmKernel {
  state: 'failed' | 'off' | 'ready' | 'starting';
  memory: number;
  imports: string[];
  problem: string;
}

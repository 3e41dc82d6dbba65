// What a view, a dialog or a notification may ask for. Every subject names these interfaces and never
// the classes behind them, which app/ makes of all subjects.

import { IAppTarget } from '../model/appTarget';
import { Action, DestructiveAction } from '../model/availableActions';
import { Loads } from '../model/loads';
import { TPUModel } from '../model/model';
import {
  ICreateTPU,
  IEnvironment,
  IFoundPythons,
  IJob,
  IKernel,
  IOperation,
  IRun,
  IStartHunt,
  ISharedFolder,
  ISharedFolders,
  ISyncResult,
  ITPU
} from '../rest/api';
import { TPURef } from '../rest/tpuRef';
import { Lookups } from '../state/loaded';
import { Store } from '../state/observable';
import { INotificationAction } from '../ui/notify';
import { ListName, ViewState } from '../ui/viewState';

/** What the user can do, with the questions before it. */
export interface IPanelActions {
  readonly model: TPUModel;
  readonly view: ViewState;
  readonly copies: ICopyActions;
  /** The forms and lists of pages: there when the panel is open, or the page of a TPU. */
  readonly forms: IForms;
  readonly foundPythons: Lookups<IFoundPythons>;
  readonly jobs: IJobActions;
  readonly kernels: IKernelActions;
  readonly loads: Loads;
  readonly open: IOpener;
  /** The kernels of this Jupyter server. */
  readonly serverKernels: Store & { has(id: string): boolean };
  readonly shares: IShareActions;
  /** The button of a notification that brings the panel to the front. */
  readonly showTPU: INotificationAction;

  /** What can be done with a TPU now, the most common first. */
  available(tpu: ITPU): Action[];
  /** Whether the part of the extension that an action needs is there. */
  offers(action: Action): boolean;
  /** Does *action* to a TPU; an error becomes the TPU's failure, or a notification. */
  act(action: Action, tpu: ITPU): Promise<void>;
  /** Opens the menu of a TPU, or of what is not about one, below a button. */
  openMenu(button: HTMLElement, tpu?: ITPU): Promise<void>;

  loadForms(): Promise<IForms>;
  /** Opens the form with its earlier input, or with *request*; *hunt*: for a hunt, or for this one. */
  openCreateForm(
    request?: Partial<ICreateTPU>,
    hunt?: boolean | IStartHunt
  ): Promise<void>;
  /** Opens it for a TPU that waits in Google's queue. */
  openQueueForm(): Promise<void>;
  /** Opens the form for a new environment, or for one that is to be changed. */
  openConnectForm(tpu: ITPU, environment?: IEnvironment): Promise<void>;
  /** Shows what is installed in an environment. */
  openPackages(tpu: ITPU, environment: IEnvironment): void;
  /** Whether an operation is the last change that was asked for on the page with packages. */
  isPackageChange(operation: IOperation): boolean;
  /** Shows a page with a list, which is loaded, in the panel. */
  openPage(page: ListName): Promise<void>;
  /** Brings the panel to the front, if there is one. */
  openPanel(): void;
}

/** Each subject's own, by its class. */
export interface IForms {
  of<T extends object>(type: new (...args: never[]) => T): T;
}

/** Each opens something in a tab or a window, if the user does not cancel the question before it. */
export interface IOpener {
  /** Shows a web app of a host: in a tab, or a window where there are no tabs. */
  app(target: IAppTarget): Promise<void>;
  console(tpu: ITPU, environment?: IEnvironment): Promise<void>;
  /** Copies an example to the user's files, and opens it with the kernel of an environment. */
  example(name: string, environment: IEnvironment): Promise<void>;
  /** Shows the files of a host in a file browser. */
  files(tpu: ITPU, host: number): Promise<void>;
  notebook(tpu: ITPU, environment?: IEnvironment): Promise<void>;
  /** Shows the output of a command that runs. */
  run(run: IRun): Promise<void>;
  /** Opens a terminal on a host. */
  terminal(tpu: ITPU, host: number): Promise<void>;
  /** Shows the page of a TPU. */
  tpu(tpu: TPURef): Promise<void>;
}

/** Copies and syncs of files and folders. */
export interface ICopyActions {
  /** *source*: what is suggested. */
  copy(tpu: ITPU, source?: string): Promise<void>;
  /** *folder*: what is suggested; without it, what was synced last, or all that Jupyter shows. */
  sync(tpu: ITPU, folder?: string): Promise<void>;
  /** Copies the files in conflict: those of this computer, or those of the TPU; whether it began. */
  decideConflicts(
    tpu: ITPU,
    result: ISyncResult,
    pull: boolean
  ): Promise<boolean>;
  /** Copies the same again, and overwrites the files that were in its way. */
  again(tpu: ITPU, operation: IOperation): Promise<void>;
}

/** Folders that hosts share. */
export interface IShareActions {
  /** Asking the hosts; what they said is then in the TPU. */
  readonly lookups: Lookups<ISharedFolders>;
  /** Asks for a folder, shows what sharing it changes, and does it. */
  share(tpu: ITPU): Promise<void>;
  /** Takes a folder from all other hosts; shows before what that changes. */
  stop(tpu: ITPU, folder: ISharedFolder): Promise<void>;
  /** Does again what an operation failed to do; shows before what that changes. */
  again(tpu: ITPU, operation: IOperation): Promise<void>;
}

export interface IJobActions {
  /** Asks for a command, and starts it. */
  start(tpu: ITPU): Promise<void>;
  /** Shows what a job has printed, and what it prints. */
  showLog(job: IJob): Promise<void>;
  /** Asks its hosts where its processes are, and shows that. */
  showWhere(job: IJob): Promise<void>;
}

/** What ends kernels, or takes one over. */
export interface IKernelActions {
  /** The kernels on a TPU; null if they can't be loaded. */
  load(tpu: ITPU): Promise<IKernel[] | null>;
  shutDown(tpu: ITPU, kernel: IKernel): Promise<void>;
  /** Takes a kernel over for this Jupyter server, with its notebook. */
  takeOver(tpu: ITPU, kernel: IKernel): Promise<void>;
  /** Does what ends the TPU's kernels or jobs. Those that are started meanwhile are asked about, too. */
  destroy(
    action: Exclude<DestructiveAction, 'kernel'>,
    tpu: ITPU,
    environment?: string
  ): Promise<void>;
}

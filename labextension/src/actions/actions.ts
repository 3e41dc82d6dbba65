// What the user can do, with the questions before it.

import { showErrorMessage } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { Action, startableEnvironments } from '../model/availableActions';
import {
  IApp,
  IEnvironment,
  IFoundPython,
  IKernel,
  IOperation,
  ISyncResult,
  ITPU,
  ITunnel
} from '../api';
import { ConnectForm } from '../forms/connectForm';
import { Examples } from '../examples';
import {
  askExample,
  askLogdir,
  askSeconds,
  confirmCancelCreate,
  confirmCloseTensorBoard,
  confirmCloseTunnel,
  confirmCost,
  confirmDestructive,
  confirmInstallIpykernel,
  confirmKeep,
  confirmStart,
  confirmTakeOver,
  DestructiveAction
} from './dialogs';
import { CreateForm } from '../forms/createForm';
import { PackagesForm } from '../forms/packagesForm';
import { TokensForm } from '../forms/tokensForm';
import { IServerKernels } from '../kernels/serverKernels';
import { FoundPythons } from '../model/foundPythons';
import { keyOf } from '../model/resources';
import { TPUModel } from '../model/model';
import {
  tensorBoardTarget,
  IAppTarget,
  targetOf,
  portTarget
} from '../apps/target';
import { CommandIDs } from './commandIDs';
import { askRun } from '../runs/runDialog';
import { checkTPU } from './doctor';
import { FileTransfers } from './files';
import { askPort } from './portDialog';
import { askSync } from './syncDialog';
import { PanelState } from './panelState';

export class Actions {
  constructor(
    readonly model: TPUModel,
    readonly createForm: CreateForm,
    readonly connectForm: ConnectForm,
    readonly packagesForm: PackagesForm,
    readonly view: PanelState,
    private _commands: CommandRegistry,
    /** The kernels of this Jupyter server. */
    readonly serverKernels: IServerKernels,
    private _examples: Pick<Examples, 'open'>,
    readonly trans: TranslationBundle,
    /** A BCP 47 tag, for dates. */
    readonly language = 'en'
  ) {
    this._files = new FileTransfers(model, trans);
    this.foundPythons = new FoundPythons(model);
    this.tokensForm = new TokensForm(model);
  }

  readonly foundPythons: FoundPythons;
  readonly tokensForm: TokensForm;

  /** Brings the panel to the front, if there is one. */
  openPanel(): void {
    if (this._commands.hasCommand(CommandIDs.open)) {
      void this._commands.execute(CommandIDs.open);
    }
  }

  /** Does *action* to a TPU; an error becomes the TPU's failure. */
  async act(action: Action, tpu: ITPU): Promise<void> {
    switch (action) {
      case 'app':
        await this._openPort(tpu);
        break;
      case 'browse':
        await this.browse(tpu, 0);
        break;
      case 'check':
        await checkTPU(tpu, this.model, this.trans);
        break;
      case 'connect':
        await this._connect(tpu);
        break;
      case 'console':
        await this.openConsole(tpu);
        break;
      case 'download':
        await this._files.download(tpu);
        break;
      case 'environment':
        this.openConnectForm(tpu);
        break;
      case 'example':
        await this._openExample(tpu);
        break;
      case 'notebook':
        await this.openNotebook(tpu);
        break;
      case 'run':
        await this._run(tpu);
        break;
      case 'start':
        if (tpu.emulated || (await confirmStart(tpu, this.trans))) {
          await this.model.start(tpu);
        }
        break;
      case 'sync':
        await this._sync(tpu);
        break;
      case 'tensorboard':
        await this._openTensorBoard(tpu);
        break;
      case 'terminal':
        await this.openTerminal(tpu, 0);
        break;
      case 'tunnel':
        await this._openTunnel(tpu);
        break;
      case 'upload':
        await this._files.upload(tpu);
        break;
      default:
        await this._destroy(action, tpu);
    }
  }

  /** Asks for a command, and shows its output in a tab. */
  private async _run(tpu: ITPU): Promise<void> {
    const request = await askRun(tpu, this.trans);
    const run = request && (await this.model.startRun(tpu, request));
    if (run) {
      const args = { run } as unknown as ReadonlyPartialJSONObject;
      await this._commands.execute(CommandIDs.showRun, args);
    }
  }

  async openNotebook(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const kernelName = (environment ?? startableEnvironments(tpu)[0])
      ?.kernelspec;
    if (kernelName) {
      await this._commands.execute('notebook:create-new', { kernelName });
    }
  }

  async openConsole(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const name = (environment ?? startableEnvironments(tpu)[0])?.kernelspec;
    if (name) {
      const kernelPreference = { name };
      await this._commands.execute('console:create', { kernelPreference });
    }
  }

  /** Opens a terminal on a host. */
  async openTerminal(tpu: ITPU, host: number): Promise<void> {
    const name = await this.model.openTerminal(tpu, host);
    if (name) {
      await this._commands.execute('terminal:create-new', { name });
    }
  }

  /** Shows the files of a host in a file browser. */
  async browse(tpu: ITPU, host: number): Promise<void> {
    if (!this._commands.hasCommand(CommandIDs.showFiles)) {
      await showErrorMessage(
        this.trans.__('Only JupyterLab can browse the files of a TPU'),
        this.trans.__('Open JupyterLab, or use Upload Files and Download File.')
      );
      return;
    }
    await this._commands.execute(CommandIDs.showFiles, {
      tpu: keyOf(tpu),
      host
    });
  }

  /** Shows a web app of a host: in a tab, or a window where there are no tabs. */
  async showApp(target: IAppTarget): Promise<void> {
    await this._commands.execute(CommandIDs.showApp, target);
  }

  /** Traces a kernel for some seconds, and shows the trace. */
  async profile(tpu: ITPU, kernel: IKernel): Promise<void> {
    const seconds = await askSeconds(tpu, this.trans);
    if (seconds !== null) {
      const app = await this.model.profile(tpu, kernel.id, seconds);
      if (app) {
        await this.showApp(targetOf(app));
      }
    }
  }

  /** Copies the files in conflict: those of this computer, or those of the TPU. */
  async decideConflicts(
    tpu: ITPU,
    operation: IOperation,
    result: ISyncResult,
    pull: boolean
  ): Promise<void> {
    const { folder, remote, conflicts } = result;
    const only = conflicts.map(each => each.path);
    const host = conflicts[0].hosts[0];
    const request = { folder, remote, pull, host, only, overwrite: true };
    if (await this.model.sync(tpu, request)) {
      this.model.dismiss(operation.id);
    }
  }

  /** Opens the form, with its earlier input. */
  openCreateForm(): void {
    void this.model.loadCatalog();
    this.view.show('create');
  }

  /** Opens the form for a new environment, or for one that is to be changed. */
  openConnectForm(tpu: ITPU, environment?: IEnvironment): void {
    this.connectForm.openFor(tpu, environment);
    this.view.show('connect');
  }

  /** Shows what is installed in an environment. */
  openPackages(tpu: ITPU, environment: IEnvironment): void {
    this.packagesForm.openFor(tpu, environment);
    this.view.show('packages');
  }

  /** Shows which tokens TPUs get. */
  openTokens(): void {
    void this.tokensForm.load();
    this.view.show('tokens');
  }

  /** Tries again to create an environment as it was asked for. */
  async retryEnvironment(tpu: ITPU, { name }: IEnvironment): Promise<void> {
    await this.model.connect(tpu, { environment: name });
  }

  /** Makes a kernel of a Python on the hosts; asks before ipykernel is installed there. */
  async usePython(tpu: ITPU, python: IFoundPython): Promise<void> {
    const { ipykernel, name, path } = python;
    if (
      ipykernel ||
      (await confirmInstallIpykernel(path, tpu.name, this.trans))
    ) {
      await this.model.connect(tpu, {
        environment: name,
        python_path: path,
        install_ipykernel: !ipykernel
      });
    }
  }

  async removeEnvironment(tpu: ITPU, { name }: IEnvironment): Promise<void> {
    await this._destroy('environment', tpu, name);
  }

  async submit(form: CreateForm | ConnectForm): Promise<void> {
    if (form === this.createForm && !(await this._approveCost())) {
      return;
    }
    if (await form.submit()) {
      this.view.show('list');
    }
  }

  /** Whether the user agrees to what the TPU costs; nobody is asked if it costs nothing. */
  private async _approveCost(): Promise<boolean> {
    const { createForm, trans } = this;
    if (createForm.catalog?.emulated) {
      return true;
    }
    const quote = await createForm.quote();
    return !!quote && (quote.emulated || (await confirmCost(quote, trans)));
  }

  /** Tries again what an operation failed to do. */
  async retry(operation: IOperation): Promise<void> {
    const { model } = this;
    const { tpu: name, zone } = operation;
    const tpu = model.tpu(keyOf({ name, zone }));
    if (operation.kind === 'create' && !tpu) {
      this.createForm.fill(model.createRequest(operation) ?? { name, zone });
      this.openCreateForm();
    } else if (tpu && operation.undeleted) {
      await this.act('delete', tpu);
    } else if (tpu) {
      switch (operation.kind) {
        case 'create':
          await this._connect(tpu);
          break;
        case 'compile':
          break; // not about a TPU
        case 'environment':
          if (this.packagesForm.isOf(operation)) {
            this.view.show('packages');
          } else {
            this.view.open(keyOf(tpu)); // where its environments are
          }
          break;
        case 'profile':
          break; // the user can trace a kernel again
        default:
          await this.act(operation.kind, tpu);
      }
    }
    model.dismiss(operation.id);
  }

  /** Ends the attempts to delete a TPU, if the user agrees that it stays. */
  async stopTrying(tpu: ITPU, operation: IOperation): Promise<void> {
    if (await confirmKeep(tpu, this.trans)) {
      await this.model.stopTrying(operation);
    }
  }

  async shutDownKernel(tpu: ITPU, kernel: IKernel): Promise<void> {
    if (kernel.problem) {
      // It is dead: nothing is lost, it is only removed from the list.
      await this.model.shutDownKernel(tpu, kernel.id);
      return;
    }
    if (await confirmDestructive('kernel', tpu, [kernel], this.trans)) {
      const ended = await this.serverKernels.shutDown([kernel.id]);
      if (ended.length === 0) {
        await this.model.shutDownKernel(tpu, kernel.id);
      }
      await this._kernels(tpu);
    }
  }

  /** Takes a kernel over for this Jupyter server, with its notebook. */
  async takeOverKernel(tpu: ITPU, kernel: IKernel): Promise<void> {
    // Its user may have changed since the list was shown.
    const now = (await this._kernels(tpu))?.find(one => one.id === kernel.id);
    if (
      (await confirmTakeOver(now ?? kernel, tpu, this.trans)) &&
      (await this.model.takeOverKernel(tpu, kernel.id))
    ) {
      await this.serverKernels.show(kernel.id);
      await this._kernels(tpu);
    }
  }

  /** Cancels an operation; asks first where that deletes a TPU. */
  async cancel(operation: IOperation): Promise<void> {
    const asks = operation.kind === 'create';
    if (!asks || (await confirmCancelCreate(operation.tpu, this.trans))) {
      await this.model.cancel(operation);
    }
  }

  /** Closes a web app; asks first where that ends its server on the host. */
  async closeApp(tpu: ITPU, app: IApp): Promise<void> {
    const asks = app.kind === 'tensorboard';
    if (!asks || (await confirmCloseTensorBoard(app, this.trans))) {
      await this.model.closeApp(tpu, app.id);
    }
  }

  /** Closes a tunnel; asks first while it is in use. */
  async closeTunnel(tpu: ITPU, tunnel: ITunnel): Promise<void> {
    const asks = tunnel.connections > 0;
    if (!asks || (await confirmCloseTunnel(tunnel, this.trans))) {
      await this.model.closeTunnel(tpu, tunnel.id);
    }
  }

  /** Shows or hides a TPU's details, which include its kernels. */
  toggleDetails(tpu: ITPU): void {
    const key = keyOf(tpu);
    this.view.toggle(key);
    if (this.view.isOpen(key) && tpu.environments.length > 0) {
      void this._kernels(tpu);
    }
  }

  toggleOperation(operation: IOperation): void {
    this.view.toggle(operation.id);
    if (this.view.isOpen(operation.id)) {
      void this.model.loadLog(operation.id);
    }
  }

  private async _openExample(tpu: ITPU): Promise<void> {
    const [environment] = startableEnvironments(tpu);
    const example = environment && (await askExample(tpu, this.trans));
    if (example) {
      try {
        await this._examples.open(example, environment);
      } catch (reason) {
        const title = this.trans.__('The example was not opened');
        await showErrorMessage(title, reason as Error);
      }
    }
  }

  private async _openPort(tpu: ITPU): Promise<void> {
    const request = await askPort('app', tpu, this.trans);
    if (request) {
      const name = this.trans.__('Port %1', request.port);
      await this.showApp(
        portTarget(tpu, request.port, request.host, '/', name)
      );
    }
  }

  private async _openTensorBoard(tpu: ITPU): Promise<void> {
    const logdir = await askLogdir(tpu, this.trans);
    if (logdir) {
      await this.showApp(tensorBoardTarget(tpu, logdir));
    }
  }

  private async _sync(tpu: ITPU): Promise<void> {
    const request = await askSync(tpu, this._synced, this.trans);
    if (request) {
      this._synced = request.folder;
      await this.model.sync(tpu, request);
    }
  }

  private async _openTunnel(tpu: ITPU): Promise<void> {
    const request = await askPort('tunnel', tpu, this.trans);
    if (request) {
      await this.model.openTunnel(tpu, request);
      this.view.open(keyOf(tpu));
    }
  }

  /** Continues with an incomplete environment, if there is one. */
  private async _connect(tpu: ITPU): Promise<void> {
    const unfinished = tpu.environments.find(one => one.state === 'failed');
    await this.model.connect(
      tpu,
      unfinished ? { environment: unfinished.name } : {}
    );
  }

  private async _destroy(
    action: Exclude<DestructiveAction, 'kernel'>,
    tpu: ITPU,
    environment = ''
  ): Promise<void> {
    // Loaded even if none is known: one may have been started a moment ago. Not loaded from a TPU
    // that is not connected: the user would have to wait.
    let kernels =
      tpu.connection === 'connected'
        ? await this._kernels(tpu)
        : tpu.kernels > 0
          ? null
          : [];
    const apps = this.model.apps(tpu).length;
    do {
      if (environment && kernels) {
        kernels = kernels.filter(one => one.environment === environment);
      }
      const running = kernels === null ? tpu.kernels : kernels.length;
      if (action !== 'disconnect' || running > 0 || apps > 0) {
        const { trans } = this;
        if (
          !(await confirmDestructive(action, tpu, kernels, trans, environment))
        ) {
          return;
        }
      }
      this.model.dismissFailure(tpu);
      await (action === 'environment'
        ? this.model.removeEnvironment(tpu, environment, running > 0)
        : this.model[action](tpu, running > 0));
      kernels = await this._newlyStarted(tpu);
    } while (kernels.length > 0);
  }

  /** Kernels that were started after the user confirmed, for which the server refused the request. */
  private async _newlyStarted(tpu: ITPU): Promise<IKernel[]> {
    const refused = this.model.failure(tpu)?.reason === 'KERNELS_RUNNING';
    return refused ? ((await this._kernels(tpu)) ?? []) : [];
  }

  /** The kernels on a TPU; null if they can't be loaded. */
  private async _kernels(tpu: ITPU): Promise<IKernel[] | null> {
    try {
      return await this.model.loadKernels(tpu);
    } catch {
      return null;
    }
  }

  /** The folder that was synced last. */
  private _synced = '';
  private _files: FileTransfers;
}

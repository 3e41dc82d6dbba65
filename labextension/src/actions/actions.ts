// What the user can do, with the questions before it.

import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';

import { Loads } from '../chips/loads';
import { PackagesForm } from '../environments/packagesForm';
import { CopyActions } from '../files/copyActions';
import { ShareActions } from '../files/shareActions';
import { JobActions } from '../jobs/jobActions';
import { Examples } from '../kernels/examples';
import { KernelActions } from '../kernels/kernelActions';
import { IServerKernels } from '../kernels/serverKernels';
import { ConnectForm } from '../lifecycle/connectForm';
import { CreateForm } from '../lifecycle/createForm';
import { QueuedList } from '../lifecycle/queuedList';
import { Action, availableActions } from '../model/availableActions';
import { Lookups } from '../model/lookups';
import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { BudgetsForm } from '../money/budgetsForm';
import { GrantsForm } from '../money/grantsForm';
import { UsageList } from '../money/usageList';
import { PanelState } from '../panel/panelState';
import {
  IApp,
  IChange,
  IEnvironment,
  IFoundPython,
  IFoundPythons,
  IOperation,
  IQueuedResource,
  ITPU,
  ITunnel
} from '../rest/api';
import { TokensForm } from '../setup/tokensForm';
import { attempt } from '../ui/attempt';
import { trans } from '../ui/translation';
import { CommandIDs } from './commandIDs';
import { Opener } from './opener';
import { ACTIONS } from './table';

/** What most components need: a TPU, and what can be done. */
export interface ITPUProps {
  tpu: ITPU;
  actions: Actions;
}

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
    examples: Pick<Examples, 'open'>
  ) {
    this.copies = new CopyActions(model);
    this.open = new Opener(model, _commands, examples);
    this.kernels = new KernelActions(model, serverKernels);
    this.jobs = new JobActions(model, view, _commands);
    this.loads = new Loads(model.client.metrics);
    this.foundPythons = new Lookups(tpu => model.client.pythons.list(tpu));
    this.grantsForm = new GrantsForm(model.client.grants);
    this.budgetsForm = new BudgetsForm(model.client);
    this.usageList = new UsageList(model.client.usage);
    this.queuedList = new QueuedList(model.client.queued);
    model.unlistedChanged.connect((_, { budgets, what }) => {
      if (budgets) {
        this.budgetsForm.update(budgets);
      } else {
        this._loadAgain(what);
      }
    });
    model.operationEnded.connect((_, { kind }) => {
      if (kind === 'queue' || kind === 'unqueue') {
        this._loadAgain('queued');
      }
    });
    this.shares = new ShareActions(model);
    this.tokensForm = new TokensForm(model.client.tokens);
  }

  /** Actions whose questions or requests are not answered yet. */
  private _begun = new Set<string>();
  readonly copies: CopyActions;
  readonly loads: Loads;
  readonly foundPythons: Lookups<IFoundPythons>;
  readonly jobs: JobActions;
  readonly kernels: KernelActions;
  readonly open: Opener;
  readonly grantsForm: GrantsForm;
  readonly budgetsForm: BudgetsForm;
  readonly usageList: UsageList;
  readonly queuedList: QueuedList;
  readonly shares: ShareActions;
  readonly tokensForm: TokensForm;

  /** Brings the panel to the front, if there is one. */
  openPanel(): void {
    if (this._commands.hasCommand(CommandIDs.open)) {
      void this._commands.execute(CommandIDs.open);
    }
  }

  /** Checks what can keep a TPU from being created: of the form, or any. */
  async checkSetup(form?: CreateForm): Promise<void> {
    const { type, zone, version, tier, network } = form?.request ?? {};
    const request = { type, zone, version, tier, network };
    const { checkSetup } = await import('../setup/doctorDialogs');
    return checkSetup(request, this.model);
  }

  /** Asks for a machine that is reached by SSH, and adds it to the TPUs. */
  async attach(): Promise<void> {
    const { attachMachine } = await import('../lifecycle/attach');
    return attachMachine(this.model);
  }

  /** Whether the part of the extension that an action needs is there. */
  offers(action: Action): boolean {
    const command = ACTIONS[action].shownBy;
    return !command || this._commands.hasCommand(command);
  }

  /** What can be done with a TPU now, the most common first. */
  available(tpu: ITPU): Action[] {
    const { model } = this;
    return availableActions(tpu, model.runningOn(tpu), model.tpus).filter(
      action => this.offers(action)
    );
  }

  /** Does *action* to a TPU; an error becomes the TPU's failure, or a notification. */
  async act(action: Action, tpu: ITPU): Promise<void> {
    const begun = `${action} ${keyOf(tpu)}`;
    if (this._begun.has(begun)) {
      return; // a double click
    }
    if (this.offers(action)) {
      this._begun.add(begun);
      await attempt(ACTIONS[action].run(this, tpu));
      this._begun.delete(begun);
    } else {
      Notification.error(
        trans.__('This part of the TPU extension is disabled.')
      );
    }
  }

  /** Opens the form, with its earlier input. */
  openCreateForm(): void {
    void this.model.loadCatalog();
    this.view.show('create');
  }

  /** Opens it for a TPU that waits in Google's queue. */
  openQueueForm(): void {
    this.createForm.set('hunt', true);
    this.createForm.set('queued', true);
    this.openCreateForm();
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

  /** Shows what may be used at no charge. */
  openGrants(): void {
    void this.grantsForm.load();
    this.view.show('grants');
  }

  /** Shows what agents and people may spend. */
  openBudgets(): void {
    void this.budgetsForm.load();
    this.view.show('budgets');
  }

  /** Shows who has which TPUs. */
  openUsage(): void {
    void this.usageList.load();
    this.view.show('usage');
  }

  /** Shows the requests that wait at Google. */
  openQueued(): void {
    void this.queuedList.load();
    this.view.show('queued');
  }

  /** Deletes a queued resource; asks first, since its TPUs and their disks go with it. */
  async deleteQueued(queued: IQueuedResource): Promise<void> {
    const { confirmDeleteQueued } = await dialogs();
    if (await confirmDeleteQueued(queued)) {
      const title = trans.__('Delete %1?', queued.name);
      await this._named(queued, title, trans.__('Delete'), name =>
        this.queuedList.delete(queued, name)
      );
    }
  }

  /** Puts a queued resource back into the queue; asks first for its name as *adopt* does. */
  async resetQueued(queued: IQueuedResource): Promise<void> {
    const title = trans.__('Reset %1?', queued.name);
    await this._named(queued, title, trans.__('Reset'), name =>
      this.queuedList.reset(queued, name)
    );
  }

  /** Shows whether Cloud Logging stores a TPU's logs, and changes that if the user wants it. */
  async chooseLogging(tpu: ITPU): Promise<void> {
    const { chooseLogging } = await import('../setup/logging');
    return chooseLogging(tpu, this.model);
  }

  /** Keeps a TPU for an hour that would stop itself; asks first for its name as *adopt* does. */
  async keep(tpu: ITPU): Promise<void> {
    const title = trans.__('Keep %1 for an hour?', tpu.name);
    await this._named(tpu, title, trans.__('Keep'), name =>
      this.model.keep(tpu, name ? { confirm_name: name } : {})
    );
  }

  /** Lets coding agents run code on a TPU, or no longer; asks first for its name as *adopt* does. */
  async allowAgents(tpu: ITPU, allowed: boolean): Promise<void> {
    const [title, accept] = allowed
      ? [
          trans.__('Let coding agents run code on %1?', tpu.name),
          trans.__('Allow')
        ]
      : [
          trans.__('Deny coding agents access to %1?', tpu.name),
          trans.__('Deny')
        ];
    await this._named(tpu, title, accept, name =>
      this.model.allowAgents(tpu, { allowed, confirm_name: name })
    );
  }

  /** Makes a TPU the user's; asks first for its name if it belongs to another person. */
  async adopt(tpu: ITPU): Promise<void> {
    const title = trans.__('Adopt %1?', tpu.name);
    await this._named(tpu, title, trans.__('Adopt'), async name => {
      if (await this.model.adopt(tpu, name)) {
        await this.usageList.load();
      }
    });
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
      (await (await dialogs()).confirmInstallIpykernel(path, tpu.name))
    ) {
      await this.model.connect(tpu, {
        environment: name,
        python_path: path,
        install_ipykernel: !ipykernel
      });
    }
  }

  async removeEnvironment(tpu: ITPU, { name }: IEnvironment): Promise<void> {
    await this.kernels.destroy('environment', tpu, name);
  }

  async submit(form: CreateForm | ConnectForm): Promise<void> {
    if (
      form === this.createForm &&
      !(await (
        await import('../lifecycle/approval')
      ).approveCost(this.createForm))
    ) {
      return;
    }
    const { fields } = this.createForm;
    if (await form.submit()) {
      if (form === this.createForm) {
        this.view.awaited = keyOf(fields);
      }
      this.view.show('list');
    }
  }

  /** Tries again what an operation failed to do. */
  async retry(operation: IOperation): Promise<void> {
    const { model } = this;
    const { tpu: name, zone } = operation;
    const tpu = model.tpu(keyOf({ name, zone }));
    const hunt = model.hunt(operation.id);
    if (hunt) {
      this.createForm.fill(hunt.request.tpu, hunt.request);
      this.openCreateForm();
    } else if (operation.kind === 'create' && !tpu) {
      this.createForm.fill(model.createRequest(operation) ?? { name, zone });
      this.openCreateForm();
    } else if (tpu && operation.undeleted) {
      await this.act('delete', tpu);
    } else if (tpu) {
      switch (operation.kind) {
        case 'create':
          await this.connect(tpu);
          break;
        case 'compile':
        case 'hunt':
        case 'queue':
        case 'plan':
        case 'unqueue':
          break; // not about a TPU that is there
        case 'environment':
          if (this.packagesForm.isOf(operation)) {
            this.view.show('packages');
          } else {
            await this.open.tpu(tpu); // where its environments are
          }
          break;
        case 'copy':
          await this.copies.again(tpu, operation);
          break;
        case 'share':
          await this.shares.again(tpu, operation);
          break;
        case 'guard':
        case 'profile':
        case 'report':
          break; // the user can set it, trace a kernel, or report a host again
        default:
          await this.act(operation.kind, tpu);
      }
    }
    model.dismiss(operation.id);
  }

  /** Opens the form to go on looking for what Google had no capacity for. */
  huntFor(operation: IOperation): void {
    const { tpu: name, zone } = operation;
    this.createForm.fill(this.model.createRequest(operation) ?? { name, zone });
    this.createForm.set('hunt', true);
    this.openCreateForm();
    this.model.dismiss(operation.id);
  }

  /** Opens the form with what could not be created, in another zone. */
  createIn(zone: string, operation: IOperation): void {
    const request = this.model.createRequest(operation);
    this.createForm.fill({ ...request, zone });
    this.openCreateForm();
    this.model.dismiss(operation.id);
  }

  /** Ends the attempts to delete a TPU, if the user agrees that it stays. */
  async stopTrying(tpu: ITPU, operation: IOperation): Promise<void> {
    if (await (await import('../money/costDialogs')).confirmKeep(tpu)) {
      await this.model.stopTrying(operation);
    }
  }

  /** Cancels an operation; asks first where that deletes a TPU. */
  async cancel(operation: IOperation): Promise<void> {
    if (
      operation.kind !== 'create' ||
      (await (await dialogs()).confirmCancelCreate(operation.tpu))
    ) {
      await this.model.cancel(operation);
    }
  }

  /** Closes a web app; asks first where that ends its server on the host. */
  async closeApp(tpu: ITPU, app: IApp): Promise<void> {
    if (
      app.kind !== 'tensorboard' ||
      (await (await dialogs()).confirmCloseTensorBoard(app))
    ) {
      await this.model.closeApp(tpu, app.id);
    }
  }

  /** Closes a tunnel; asks first while it is in use. */
  async closeTunnel(tpu: ITPU, tunnel: ITunnel): Promise<void> {
    if (
      tunnel.connections === 0 ||
      (await (await dialogs()).confirmCloseTunnel(tunnel))
    ) {
      await this.model.closeTunnel(tpu, tunnel.id);
    }
  }

  toggleOperation(operation: IOperation): void {
    this.view.toggle(operation.id);
    if (this.view.isOpen(operation.id)) {
      void this.model.loadLog(operation.id);
    }
  }

  /** Loads what has changed, if it was loaded. */
  private _loadAgain(what: IChange['what']): void {
    const list = what === 'queued' ? this.queuedList : this.grantsForm;
    if (what === 'prices') {
      void (this.model.catalog && this.model.loadCatalog(true));
    } else if (list.items) {
      void list.load();
    }
  }

  async openTunnel(tpu: ITPU): Promise<void> {
    const { openTunnel } = await import('../forwarding/portDialog');
    if (await openTunnel(tpu, this.model)) {
      await this.open.tpu(tpu); // where it is listed
    }
  }

  async start(tpu: ITPU): Promise<void> {
    const title = trans.__('Start %1?', tpu.name);
    const price = tpu.cost.usd_per_hour;
    if (
      tpu.emulated ||
      (await (await import('../money/costDialogs')).confirmStart(tpu))
    ) {
      await this._named(tpu, title, trans.__('Start'), name =>
        this.model.start(tpu, {
          ...(price !== 0 && { confirm_price: true, max_price: price }),
          ...(name && { confirm_name: name })
        })
      );
    }
  }

  /** Continues with an incomplete environment, if there is one. */
  async connect(tpu: ITPU): Promise<void> {
    const unfinished = tpu.environments.find(one => one.state === 'failed');
    await this.model.connect(
      tpu,
      unfinished ? { environment: unfinished.name } : {}
    );
  }

  /** Does *act* with the name of what belongs to another person, which is asked for; else with "". */
  private async _named(
    one: Pick<ITPU, 'name' | 'not_yours' | 'owner'>,
    title: string,
    accept: string,
    act: (name: string) => Promise<unknown>
  ): Promise<void> {
    const name = await (await dialogs()).askName(one, title, accept);
    if (name !== null) {
      await act(name);
    }
  }
}

const dialogs = () => import('./dialogs');

// What the user can do, with the questions before it.

import { CommandRegistry } from '@lumino/commands';

import { Loads } from '../chips/loads';
import { CopyActions } from '../files/copyActions';
import { ShareActions } from '../files/shareActions';
import { JobActions } from '../jobs/jobActions';
import { Examples } from '../kernels/examples';
import { KernelActions } from '../kernels/kernelActions';
import { IServerKernels } from '../kernels/serverKernels';
import type { ConnectForm } from '../lifecycle/connectForm';
import type { CreateDefaults } from '../lifecycle/createDefaults';
import type { CreateForm } from '../lifecycle/createForm';
import { Action, availableActions } from '../model/availableActions';
import { Lookups } from '../model/lookups';
import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { TPUMenu } from '../panel/menu';
import { PanelState } from '../panel/panelState';
import {
  IApp,
  ICreateTPU,
  IEnvironment,
  IFoundPython,
  IFoundPythons,
  IOperation,
  IQueuedResource,
  ITPU,
  ITunnel
} from '../rest/api';
import { attempt } from '../ui/attempt';
import { INotificationAction, notify } from '../ui/notify';
import { trans } from '../ui/translation';
import { CommandIDs } from './commandIDs';
import type { Forms } from './forms';
import { Opener } from './opener';
import { ACTIONS } from './table';

export class Actions {
  constructor(
    readonly model: TPUModel,
    readonly view: PanelState,
    private _commands: CommandRegistry,
    /** The kernels of this Jupyter server. */
    readonly serverKernels: IServerKernels,
    examples: Pick<Examples, 'open'>,
    /** What a new TPU begins with. */
    private _defaults?: CreateDefaults
  ) {
    this.copies = new CopyActions(model);
    this.open = new Opener(model, _commands, examples);
    this.kernels = new KernelActions(model, serverKernels);
    this.jobs = new JobActions(model, view, _commands);
    this.loads = new Loads(model.client.metrics);
    this.foundPythons = new Lookups(tpu => model.client.pythons.list(tpu));
    this.shares = new ShareActions(model);
  }

  readonly copies: CopyActions;
  readonly loads: Loads;
  readonly foundPythons: Lookups<IFoundPythons>;
  readonly jobs: JobActions;
  readonly kernels: KernelActions;
  readonly open: Opener;
  readonly shares: ShareActions;
  /** Actions whose questions or requests are not answered yet. */
  private _begun = new Set<string>();
  private _forms?: Forms;
  private _menu?: TPUMenu;

  /** The forms and lists of pages. They are there when the panel is open, or the page of a TPU. */
  get forms(): Forms {
    return this._forms!;
  }

  async loadForms(): Promise<Forms> {
    if (!this._forms) {
      const { Forms } = await import('./forms');
      this._forms ??= new Forms(this.model, this._defaults);
    }
    return this._forms;
  }

  /** Opens the menu of a TPU, or of what is not about one, below a button. */
  openMenu(button: HTMLElement, tpu?: ITPU): void {
    this._menu ??= new TPUMenu(this._commands);
    if (tpu) {
      this._menu.openFor(button, this.available(tpu), tpu);
    } else {
      this._menu.openForAll(button);
    }
  }

  /** The button of a notification that brings the panel to the front. */
  get showTPU(): INotificationAction {
    return {
      label: trans.__('Show TPU'),
      callback: () => this.openPanel()
    };
  }

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
      notify.error(trans.__('This part of the TPU extension is disabled.'));
    }
  }

  /** Opens the form with its earlier input, or with *request*; *hunt*: for a hunt. */
  async openCreateForm(
    request?: Partial<ICreateTPU>,
    hunt = false
  ): Promise<void> {
    const { create } = await this.loadForms();
    if (request) {
      create.fill(request);
    }
    if (hunt) {
      create.set('hunt', true);
    }
    void this.model.loadCatalog();
    this.view.show('create');
  }

  /** Opens it for a TPU that waits in Google's queue. */
  async openQueueForm(): Promise<void> {
    await this.openCreateForm(undefined, true);
    this.forms.create.set('queued', true);
  }

  /** Opens the form for a new environment, or for one that is to be changed. */
  async openConnectForm(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    (await this.loadForms()).connect.openFor(tpu, environment);
    this.view.show('connect');
  }

  /** Shows what is installed in an environment. */
  openPackages(tpu: ITPU, environment: IEnvironment): void {
    this.forms.packages.openFor(tpu, environment);
    this.view.show('packages');
  }

  /** Shows a page with a list, which is loaded. */
  async openPage(page: keyof Forms['lists']): Promise<void> {
    void (await this.loadForms()).lists[page].load();
    this.view.show(page);
  }

  /** Deletes a queued resource; asks first, since its TPUs and their disks go with it. */
  async deleteQueued(queued: IQueuedResource): Promise<void> {
    const { confirmDeleteQueued } = await dialogs();
    if (await confirmDeleteQueued(queued)) {
      const title = trans.__('Delete %1?', queued.name);
      await this._named(queued, title, trans.__('Delete'), name =>
        this.forms.queued.delete(queued, name)
      );
    }
  }

  /** Puts a queued resource back into the queue; asks first for its name as *adopt* does. */
  async resetQueued(queued: IQueuedResource): Promise<void> {
    const title = trans.__('Reset %1?', queued.name);
    await this._named(queued, title, trans.__('Reset'), name =>
      this.forms.queued.reset(queued, name)
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
      this.model.send(tpu, async client => {
        await client.guards.keep(tpu, name ? { confirm_name: name } : {});
      })
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
      this.model.send(tpu, async client => {
        await client.budgets.allow(tpu, { allowed, confirm_name: name });
      })
    );
  }

  /** Makes a TPU the user's; asks first for its name if it belongs to another person. */
  async adopt(tpu: ITPU): Promise<void> {
    const title = trans.__('Adopt %1?', tpu.name);
    await this._named(tpu, title, trans.__('Adopt'), confirm_name =>
      this.model.send(tpu, async client => {
        await client.usage.adopt(tpu, { confirm_name });
        await this.forms.usage.load();
      })
    );
  }

  /** Tries again to create an environment as it was asked for. */
  async retryEnvironment(tpu: ITPU, { name }: IEnvironment): Promise<void> {
    await this.model.connect(tpu, { environment: name });
  }

  /** Makes a kernel of a Python on the hosts; asks before ipykernel is installed there. */
  async usePython(tpu: ITPU, python: IFoundPython): Promise<void> {
    const { ipykernel, name, path } = python;
    const agreed =
      ipykernel ||
      (await (await dialogs()).confirmInstallIpykernel(path, tpu.name));
    if (agreed) {
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
    const { create } = this.forms;
    if (form === create) {
      const { approveCost } = await import('../lifecycle/approval');
      if (!(await approveCost(create))) {
        return;
      }
    }
    const { fields } = create;
    if (await form.submit()) {
      if (form === create) {
        this.view.awaited = keyOf(fields);
      }
      this.view.show('list');
    }
  }

  /** Tries again what an operation failed to do. */
  async retry(operation: IOperation): Promise<void> {
    const { model } = this;
    const tpu = model.tpuOf(operation);
    const hunt = model.hunt(operation.id);
    const forms = await this.loadForms();
    if (hunt) {
      forms.create.fill(hunt.request.tpu, hunt.request);
      await this.openCreateForm();
    } else if (operation.kind === 'create' && !tpu) {
      await this.openCreateForm(this._requestOf(operation));
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
          if (forms.packages.isOf(operation)) {
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
  async huntFor(operation: IOperation): Promise<void> {
    await this.openCreateForm(this._requestOf(operation), true);
    this.model.dismiss(operation.id);
  }

  /** Opens the form with what could not be created, in another zone. */
  async createIn(zone: string, operation: IOperation): Promise<void> {
    await this.openCreateForm({ ...this._requestOf(operation), zone });
    this.model.dismiss(operation.id);
  }

  /** What an operation was to create, as far as this page knows. */
  private _requestOf(operation: IOperation): Partial<ICreateTPU> {
    const { tpu: name, zone } = operation;
    return this.model.createRequest(operation) ?? { name, zone };
  }

  /** Ends the attempts to delete a TPU, if the user agrees that it stays. */
  async stopTrying(tpu: ITPU, { id }: IOperation): Promise<void> {
    if (await (await import('../money/costDialogs')).confirmKeep(tpu)) {
      await this.model.send(tpu, ({ operations }) =>
        operations.stopTrying(id, { keep_tpu: true })
      );
    }
  }

  /** Cancels an operation; asks first where that deletes a TPU. */
  async cancel(operation: IOperation): Promise<void> {
    const agreed =
      operation.kind !== 'create' ||
      (await (await dialogs()).confirmCancelCreate(operation.tpu));
    if (agreed) {
      await this.model.cancel(operation);
    }
  }

  /** Closes a web app; asks first where that ends its server on the host. */
  async closeApp(tpu: ITPU, app: IApp): Promise<void> {
    const agreed =
      app.kind !== 'tensorboard' ||
      (await (await dialogs()).confirmCloseTensorBoard(app));
    if (agreed) {
      await this.model.close(tpu, app.id, ({ apps }) => apps.close(app.id));
    }
  }

  /** Closes a tunnel; asks first while it is in use. */
  async closeTunnel(tpu: ITPU, tunnel: ITunnel): Promise<void> {
    const { connections, id, port } = tunnel;
    const agreed =
      connections === 0 ||
      (await (await dialogs()).confirmCloseTunnel(port, connections));
    if (agreed) {
      await this.model.close(tpu, id, ({ tunnels }) => tunnels.close(tpu, id));
    }
  }

  toggleOperation(operation: IOperation): void {
    this.view.toggle(operation.id);
    if (this.view.isOpen(operation.id)) {
      void this.model.loadLog(operation.id);
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
    const agreed =
      tpu.emulated ||
      (await (await import('../money/costDialogs')).confirmStart(tpu));
    if (agreed) {
      await this._named(tpu, title, trans.__('Start'), confirm_name =>
        this.model.send(tpu, client =>
          client.start(tpu, {
            ...(price !== 0 && { confirm_price: true, max_price: price }),
            ...(confirm_name && { confirm_name })
          })
        )
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

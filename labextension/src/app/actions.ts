// What the user can do, with the questions before it.

import { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../actions/commandIDs';
import { ACTIONS } from '../actions/table';
import { Loads } from '../chips/loads';
import { CopyActions } from '../files/copyActions';
import { ShareActions } from '../files/shareActions';
import { JobActions } from '../jobs/jobActions';
import { Examples } from '../kernels/examples';
import { KernelActions } from '../kernels/kernelActions';
import { IServerKernels } from '../kernels/serverKernels';
import { trans } from '../language/translation';
import type { CreateDefaults } from '../lifecycle/createDefaults';
import { Action, availableActions } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { ICreateTPU, IEnvironment, IFoundPythons, ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { Lookups } from '../state/loaded';
import { attempt } from '../ui/attempt';
import { INotificationAction, notify } from '../ui/notify';
import { PanelState } from '../ui/viewState';
import type { Forms } from './forms';
import { TPUMenu } from './menu';
import { Opener } from './opener';

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
      await attempt(
        import('./runs').then(({ RUNS }) => RUNS[action](tpu, this))
      );
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

  /** Shows a page with a list, which is loaded, in the panel. */
  async openPage(page: keyof Forms['lists']): Promise<void> {
    this.openPanel();
    void (await this.loadForms()).lists[page].load();
    this.view.show(page);
  }
}

// What the user can do, with the questions before it.

import { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../actions/commandIDs';
import {
  ICopyActions,
  IKernelActions,
  IPanelActions
} from '../actions/panelActions';
import { ACTIONS } from '../actions/table';
import { ShareActions } from '../files/shareActions';
import { JobActions } from '../jobs/jobActions';
import { Examples } from '../kernels/examples';
import { IServerKernels } from '../kernels/serverKernels';
import { trans } from '../language/translation';
import type { CreateDefaults } from '../lifecycle/createDefaults';
import { Action, availableActions } from '../model/availableActions';
import { Loads } from '../model/loads';
import { TPUModel } from '../model/model';
import {
  ICreateTPU,
  IEnvironment,
  IFoundPythons,
  IOperation,
  IStartHunt,
  ITPU
} from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { later } from '../state/later';
import { Lookups } from '../state/loaded';
import { attempt } from '../ui/attempt';
import { INotificationAction, notify } from '../ui/notify';
import { ListName, ViewState } from '../ui/viewState';
import type { Forms } from './forms';
import type { TPUMenu } from './menu';
import { Opener } from './opener';

export class Actions implements IPanelActions {
  constructor(
    readonly model: TPUModel,
    readonly view: ViewState,
    private _commands: CommandRegistry,
    readonly serverKernels: IServerKernels,
    examples: Pick<Examples, 'open'>,
    /** What a new TPU begins with. */
    private _defaults?: CreateDefaults
  ) {
    this.copies = later(async () => {
      const { CopyActions } = await import('../files/copyActions');
      return new CopyActions(model);
    });
    this.open = new Opener(model, _commands, examples);
    this.kernels = later(async () => {
      const { KernelActions } = await import('../kernels/kernelActions');
      return new KernelActions(model, serverKernels);
    });
    this.jobs = new JobActions(model, view, _commands);
    this.loads = new Loads(model.client.metrics);
    this.foundPythons = new Lookups(tpu => model.client.pythons.list(tpu));
    this.shares = new ShareActions(model);
  }

  readonly copies: ICopyActions;
  readonly loads: Loads;
  readonly foundPythons: Lookups<IFoundPythons>;
  readonly jobs: JobActions;
  readonly kernels: IKernelActions;
  readonly open: Opener;
  readonly shares: ShareActions;
  /** Actions whose questions or requests are not answered yet. */
  private _begun = new Set<string>();
  private _forms?: Forms;
  private _menu?: TPUMenu;

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

  async openMenu(button: HTMLElement, tpu?: ITPU): Promise<void> {
    const open = ({ TPUMenu }: typeof import('./menu')) => {
      this._menu ??= new TPUMenu(this._commands);
      if (tpu) {
        this._menu.openFor(button, this.available(tpu), tpu);
      } else {
        this._menu.openForAll(button);
      }
    };
    await attempt(import('./menu').then(open));
  }

  get showTPU(): INotificationAction {
    return {
      label: trans.__('Show TPU'),
      callback: () => this.openPanel()
    };
  }

  openPanel(): void {
    if (this._commands.hasCommand(CommandIDs.open)) {
      void this._commands.execute(CommandIDs.open);
    }
  }

  offers(action: Action): boolean {
    const command = ACTIONS[action].shownBy;
    return !command || this._commands.hasCommand(command);
  }

  available(tpu: ITPU): Action[] {
    const { model } = this;
    return availableActions(tpu, model.runningOn(tpu), model.tpus).filter(
      action => this.offers(action)
    );
  }

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

  async openCreateForm(
    request?: Partial<ICreateTPU>,
    hunt: boolean | IStartHunt = false
  ): Promise<void> {
    const { create } = await this.loadForms();
    if (request) {
      create.fill(request, typeof hunt === 'object' ? hunt : undefined);
    }
    if (hunt === true) {
      create.set('hunt', true);
    }
    void this.model.loadCatalog();
    this.view.show('create');
  }

  async openQueueForm(): Promise<void> {
    await this.openCreateForm(undefined, true);
    this.forms.create.set('queued', true);
  }

  async openConnectForm(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    (await this.loadForms()).connect.openFor(tpu, environment);
    this.view.show('connect');
  }

  openPackages(tpu: ITPU, environment: IEnvironment): void {
    this.forms.packages.openFor(tpu, environment);
    this.view.show('packages');
  }

  isPackageChange(operation: IOperation): boolean {
    return this.forms.packages.isOf(operation);
  }

  async openPage(page: ListName): Promise<void> {
    this.openPanel();
    void (await this.loadForms()).lists[page].load();
    this.view.show(page);
  }
}

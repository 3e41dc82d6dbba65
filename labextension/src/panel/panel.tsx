// The sidebar panel.

import {
  addIcon,
  Button,
  caretLeftIcon,
  linkIcon,
  ReactWidget,
  refreshIcon
} from '@jupyterlab/ui-components';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import React from 'react';

import { Actions } from '../actions/actions';
import { PackagesPage } from '../environments/packagesPage';
import { ConnectPage } from '../lifecycle/connectPage';
import { CreatePage } from '../lifecycle/createPage';
import { QueuedPage } from '../lifecycle/queuedPage';
import { keyOf } from '../model/resources';
import { GrantsPage } from '../money/grantsPage';
import { UsagePage } from '../money/usagePage';
import { operationTitle } from '../operations/operationLabels';
import { Operation } from '../operations/operationView';
import { ICatalog, IOperation } from '../rest/api';
import { TokensPage } from '../setup/tokensPage';
import {
  Disclosure,
  EmptyState,
  IconButton,
  Alert,
  Link
} from '../ui/elements';
import { failureText, serverProblems } from '../ui/failures';
import { CheckSetup } from '../ui/formPage';
import { tpuIcon } from '../ui/icons';
import { useStore } from '../ui/store';
import { TPUMenu } from './menu';
import { Page } from './panelState';
import { TPU } from './tpu';

/** Seconds between two looks at the server while the panel is visible. */
const REFRESH = 120;

export class TPUPanel extends ReactWidget {
  constructor(
    private _actions: Actions,
    commands: CommandRegistry
  ) {
    super();
    const { trans } = _actions;
    this._menu = new TPUMenu(commands, trans);
    this.id = 'jp-tpu-panel';
    this.addClass('jp-tpu-Panel');
    this.title.icon = tpuIcon;
    this.title.caption = trans.__('TPU');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('TPU'));
  }

  dispose(): void {
    this._poll.dispose();
    this._menu.dispose();
    super.dispose();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    const { model, view } = this._actions;
    view.visible = true;
    void model.loadCatalog();
    void this._poll.schedule({ interval: REFRESH * 1000, phase: 'started' });
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._actions.view.visible = false;
    void this._poll.stop();
  }

  protected render(): JSX.Element {
    return <Panel actions={this._actions} menu={this._menu} />;
  }

  private _menu: TPUMenu;

  // Events say what changes; somebody who looks keeps the server looking at what it costs.
  private _poll = new Poll({
    auto: false,
    name: 'jupyter-tpu:panel',
    factory: () => this._actions.model.refresh(false),
    frequency: { interval: REFRESH * 1000, backoff: false },
    standby: 'when-hidden'
  });
}

interface IPanelProps {
  actions: Actions;
  menu: TPUMenu;
}

const PAGES: { [page in Page]: (props: IPanelProps) => JSX.Element } = {
  connect: ConnectPage,
  create: CreatePage,
  grants: GrantsPage,
  list: List,
  packages: PackagesPage,
  queued: QueuedPage,
  tokens: TokensPage,
  usage: UsagePage
};

function Panel(props: IPanelProps): JSX.Element {
  const { actions } = props;
  const model = useStore(actions.model);
  const view = useStore(actions.view);
  const { trans } = actions;
  const usable = model.phase === 'ready';
  const Shown = PAGES[usable ? view.page : 'list'];
  return (
    <>
      <header className="jp-tpu-Header">
        {view.page !== 'list' ? (
          <>
            <IconButton
              icon={caretLeftIcon}
              label={trans.__('Back to the list')}
              onClick={() => view.show('list')}
            />
            <h2 title={pageTitle(actions)}>{pageTitle(actions)}</h2>
          </>
        ) : (
          <>
            <h2>{trans.__('TPU')}</h2>
            <IconButton
              icon={addIcon}
              label={trans.__('New TPU')}
              disabled={!usable}
              onClick={() => actions.openCreateForm()}
            />
            <IconButton
              icon={linkIcon}
              label={trans.__('Attach a Machine…')}
              disabled={!usable}
              onClick={() => void actions.attach()}
            />
            <IconButton
              icon={refreshIcon}
              label={trans.__('Refresh')}
              onClick={() => void model.refresh()}
            />
          </>
        )}
      </header>
      {model.catalog && <Project catalog={model.catalog} trans={trans} />}
      <div className="jp-tpu-Body">
        <Shown {...props} />
      </div>
      <div className="jp-tpu-ScreenReader" role="status">
        {model.operations
          .slice(0, 1)
          .map(operation => operationTitle(operation, trans))}
      </div>
    </>
  );
}

function Project(props: {
  catalog: ICatalog;
  trans: TranslationBundle;
}): JSX.Element {
  const {
    catalog: { emulated, project },
    trans
  } = props;
  const text = emulated
    ? trans.__('Emulator: no real TPUs, no costs')
    : project
      ? trans.__('Project %1', project)
      : trans.__('No project');
  return (
    <div className="jp-tpu-Project" title={text}>
      {text}
    </div>
  );
}

function pageTitle({
  connectForm,
  packagesForm,
  trans,
  view
}: Actions): string {
  switch (view.page) {
    case 'create':
      return trans.__('New TPU');
    case 'packages':
      return trans.__('Packages of %1', packagesForm.environment?.name ?? '');
    case 'grants':
      return trans.__('Grants');
    case 'queued':
      return trans.__('Queued resources');
    case 'tokens':
      return trans.__('Tokens');
    case 'usage':
      return trans.__('TPU usage');
    default:
      return connectForm.environment
        ? trans.__('Environment %1', connectForm.environment.name)
        : trans.__('New environment');
  }
}

function List({ actions, menu }: IPanelProps): JSX.Element {
  const { model, trans } = actions;
  const again = (
    <Button
      className="jp-tpu-Button"
      disabled={model.refreshing}
      onClick={() => void model.refresh()}
    >
      {trans.__('Try Again')}
    </Button>
  );
  const problem = model.problem && failureText(model.problem, trans);
  if (model.phase === 'loading') {
    return <EmptyState busy title={trans.__('Loading TPUs…')} />;
  }
  if (model.phase === 'missing' || model.phase === 'failed') {
    return (
      <EmptyState
        title={
          model.phase === 'missing'
            ? trans.__('No TPUs available')
            : trans.__('The list of TPUs could not be loaded')
        }
        text={problem?.message}
        hint={problem?.hint}
      >
        {again}
      </EmptyState>
    );
  }

  const { operations } = model;
  // What a hunt is trying to create comes and goes: the hunt shows it.
  const hunted = new Set(
    operations
      .filter(one => one.kind === 'hunt' && one.state === 'running')
      .map(one => keyOf({ name: one.tpu, zone: one.zone }))
  );
  const tpus = model.tpus.filter(tpu => !hunted.has(keyOf(tpu)));
  // An operation is shown once: with its TPU while it runs or if it failed, else below the list.
  const shown = tpus.map(tpu => ({
    tpu,
    operations: model
      .operationsOf(tpu)
      .filter(one => one.state === 'running' || one.state === 'failed')
  }));
  const above = new Set(shown.flatMap(one => one.operations));
  const others = operations.filter(one => !above.has(one));
  const unlisted = others.filter(one => one.state === 'running');
  const ended = others.filter(one => one.state !== 'running');
  return (
    <>
      {model.status &&
        serverProblems(model.status, trans).map(one => (
          <Alert key={one.message} kind="warning" {...one} />
        ))}
      {problem && tpus.length > 0 && (
        <Alert kind="warning" {...problem}>
          {again}
        </Alert>
      )}
      {tpus.length === 0 && unlisted.length === 0 && (
        <EmptyState
          title={
            problem
              ? trans.__('The TPUs could not be listed')
              : trans.__('No TPUs yet')
          }
          text={
            problem
              ? problem.message
              : trans.__(
                  'Create a TPU and connect it. Its kernel then appears in the launcher and in the kernel pickers.'
                )
          }
          hint={problem?.hint}
        >
          {problem ? (
            again
          ) : (
            <Button
              className="jp-tpu-Button jp-mod-main"
              onClick={() => actions.openCreateForm()}
            >
              <addIcon.react tag="span" elementSize="normal" />
              {trans.__('New TPU')}
            </Button>
          )}
          <CheckSetup actions={actions} />
        </EmptyState>
      )}
      {unlisted.map(operation => (
        <Operation key={operation.id} operation={operation} actions={actions} />
      ))}
      {shown.length > 0 && (
        <ul className="jp-tpu-List" aria-label={trans.__('TPUs')}>
          {shown.map(one => (
            <TPU
              key={`${one.tpu.zone}/${one.tpu.name}`}
              actions={actions}
              menu={menu}
              {...one}
            />
          ))}
        </ul>
      )}
      {ended.length > 0 && <Ended operations={ended} actions={actions} />}
    </>
  );
}

/** Operations that have ended. */
function Ended(props: {
  operations: IOperation[];
  actions: Actions;
}): JSX.Element {
  const { operations, actions } = props;
  const { model, trans, view } = actions;
  const closed = view.isOpen('ended#closed');
  return (
    <section className="jp-tpu-Ended" aria-label={trans.__('Recent')}>
      <div className="jp-tpu-Ended-head">
        <Disclosure
          open={!closed}
          controls="jp-tpu-ended"
          onToggle={() => view.toggle('ended#closed')}
        >
          {trans.__('Recent')}
          <span className="jp-tpu-Details-count">{operations.length}</span>
        </Disclosure>
        <Link onClick={() => operations.forEach(({ id }) => model.dismiss(id))}>
          {trans.__('Clear')}
        </Link>
      </div>
      {!closed && (
        <div id="jp-tpu-ended">
          {operations.map(operation => (
            <Operation
              key={operation.id}
              operation={operation}
              actions={actions}
            />
          ))}
        </div>
      )}
    </section>
  );
}

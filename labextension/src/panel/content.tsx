// What the sidebar shows: the list of TPUs, what runs or has failed, and the panel's pages.

import {
  addIcon,
  caretLeftIcon,
  ellipsesIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import React, {
  lazy,
  RefObject,
  Suspense,
  useEffect,
  useRef,
  useState
} from 'react';

import { Actions } from '../actions/actions';
import { keyOf } from '../model/resources';
import { BudgetLine } from '../money/budgetLine';
import { operationTitle } from '../operations/operationLabels';
import { Operation } from '../operations/operationView';
import { POLL } from '../model/synchronizer';
import { ICatalog, IOperation, ITPU } from '../rest/api';
import { VERSION } from '../rest/version';
import {
  Alert,
  Disclosure,
  EmptyState,
  IconButton,
  Link,
  ShowAll,
  TextButton
} from '../ui/elements';
import { failureText, serverProblems } from '../ui/failures';
import { CheckSetup } from '../ui/formPage';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { Alerts, hasAlerts, isUrgent } from './alerts';
import { TPUMenu } from './menu';
import { TPU } from './tpu';
import { tpuStatus } from './tpuLabels';

export interface IPanelProps {
  actions: Actions;
  menu: TPUMenu;
}

/** The pages beside the list, which is what most people see. */
const Form = lazy(() => import('./pages'));

export default function Panel(props: IPanelProps): JSX.Element {
  const { actions, menu } = props;
  const model = useStore(actions.model);
  const view = useStore(actions.view);
  const usable = model.phase === 'ready';
  const page = usable ? view.page : 'list';
  const toList = () => view.show('list');
  return (
    <>
      <div className="jp-tpu-Header">
        {view.page !== 'list' ? (
          <>
            <IconButton
              icon={caretLeftIcon}
              label={trans.__('Back to the list')}
              onClick={toList}
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
              icon={refreshIcon}
              label={trans.__('Refresh')}
              onClick={() => void model.refresh()}
            />
            <IconButton
              icon={ellipsesIcon}
              label={trans.__('More')}
              hasPopup
              disabled={!usable}
              onClick={event => menu.openForAll(event.currentTarget)}
            />
          </>
        )}
      </div>
      {model.catalog && <Project catalog={model.catalog} />}
      <div
        className="jp-tpu-Body"
        onKeyDown={event => {
          if (event.key === 'Escape' && page !== 'list') {
            event.stopPropagation();
            toList();
          }
        }}
      >
        {page === 'list' ? (
          <List {...props} />
        ) : (
          <Suspense fallback={<EmptyState busy title={trans.__('Loading…')} />}>
            <Form page={page} actions={actions} menu={menu} />
          </Suspense>
        )}
      </div>
      <div className="jp-tpu-ScreenReader" role="status">
        {model.operations
          .slice(0, 1)
          .map(operation => operationTitle(operation))}
      </div>
    </>
  );
}

function Project(props: { catalog: ICatalog }): JSX.Element {
  const {
    catalog: { emulated, project }
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

function pageTitle({ connectForm, packagesForm, view }: Actions): string {
  switch (view.page) {
    case 'create':
      return trans.__('New TPU');
    case 'packages':
      return trans.__('Packages of %1', packagesForm.environment?.name ?? '');
    case 'budgets':
      return trans.__('Budgets');
    case 'grants':
      return trans.__('Grants');
    case 'queued':
      return trans.__('Queued Resources');
    case 'tokens':
      return trans.__('Tokens');
    case 'usage':
      return trans.__('TPU Usage');
    default:
      return connectForm.environment
        ? trans.__('Environment %1', connectForm.environment.name)
        : trans.__('New Environment');
  }
}

function List(props: IPanelProps): JSX.Element {
  const { actions } = props;
  const { model } = actions;
  const again = (
    <TextButton
      disabled={model.refreshing}
      onClick={() => void model.refresh()}
    >
      {trans.__('Try Again')}
    </TextButton>
  );
  const problem = model.problem && failureText(model.problem);
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

  return <Found {...props} again={again} problem={problem} />;
}

/** The list, when it was loaded. */
function Found(
  props: IPanelProps & {
    again: JSX.Element;
    problem: { message: string; hint: string } | null;
  }
): JSX.Element {
  const { actions, again, menu, problem } = props;
  const { model } = actions;
  const { operations } = model;
  const list = useRef<HTMLDivElement>(null);
  // What a hunt is trying to create comes and goes: the hunt shows it.
  const hunted = new Set(
    operations
      .filter(one => one.kind === 'hunt' && one.state === 'running')
      .map(one => keyOf({ name: one.tpu, zone: one.zone }))
  );
  const tpus = model.tpus.filter(tpu => !hunted.has(keyOf(tpu)));
  const urgent = operations.filter(isUrgent);
  const alerted = tpus.filter(tpu => hasAlerts(tpu, actions));
  const ended = operations.filter(one => !isUrgent(one));
  useFocus(list, [...hunted, ...tpus.map(keyOf)].join(), actions);
  return (
    <div ref={list}>
      <StalePage actions={actions} />
      {model.polling && !problem && (
        <Alert
          kind="warning"
          message={trans.__('Live updates do not arrive.')}
          hint={trans.__(
            'The list is loaded again every %1 seconds. A proxy may block WebSockets.',
            POLL.idle
          )}
        />
      )}
      {model.status &&
        serverProblems(model.status).map(one => (
          <Alert key={one.message} kind="warning" {...one} />
        ))}
      {problem && tpus.length > 0 && (
        <Alert kind="warning" {...problem}>
          {again}
        </Alert>
      )}
      <BudgetLine actions={actions} />
      {(urgent.length > 0 || alerted.length > 0) && (
        <section className="jp-tpu-Urgent" aria-label={trans.__('Now')}>
          <Some id="urgent" actions={actions} label={trans.__('operations')}>
            {urgent.map(operation => (
              <Operation
                key={operation.id}
                operation={operation}
                actions={actions}
              />
            ))}
          </Some>
          <Some id="alerted" actions={actions} label={trans.__('problems')}>
            {alerted.map(tpu => (
              <section
                key={keyOf(tpu)}
                aria-label={trans.__('Problems of %1', tpu.name)}
              >
                {tpus.length > 1 && (
                  <Link onClick={() => void actions.open.tpu(tpu)}>
                    {tpu.name}
                  </Link>
                )}
                <Alerts tpu={tpu} actions={actions} />
              </section>
            ))}
          </Some>
        </section>
      )}
      {tpus.length === 0 && !urgent.some(one => one.state === 'running') && (
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
            <TextButton main onClick={() => actions.openCreateForm()}>
              <addIcon.react tag="span" elementSize="normal" />
              {trans.__('New TPU')}
            </TextButton>
          )}
          <CheckSetup actions={actions} />
        </EmptyState>
      )}
      {tpus.length > 0 && <Rows tpus={tpus} actions={actions} menu={menu} />}
      {ended.length > 0 && <Ended operations={ended} actions={actions} />}
    </div>
  );
}

/** So many are shown of a list that is not what most people look for, until they want all. */
const SHOWN = 5;

/** The first of *children*, and the others when the user asks for them. */
function Some(props: {
  /** Where the view keeps whether all are shown. */
  id: string;
  label: string;
  actions: Actions;
  children: JSX.Element[];
}): JSX.Element {
  const { actions, children, id, label } = props;
  const all = `some#${id}`;
  const hidden = children.length - SHOWN;
  return (
    <>
      {children.slice(
        0,
        actions.view.isOpen(all) || hidden <= 1 ? undefined : SHOWN
      )}
      {hidden > 1 && (
        <ShowAll
          id={all}
          view={actions.view}
          count={children.length}
          label={trans.__('Show all %1 %2', children.length, label)}
        />
      )}
    </>
  );
}

/** What to do where this page and the server are of two versions: after one of them was updated. */
function StalePage({ actions }: { actions: Actions }): JSX.Element | null {
  const server = actions.model.status?.version;
  if (!server || server === VERSION) {
    return null;
  }
  const newer = server.localeCompare(VERSION, undefined, { numeric: true }) > 0;
  return (
    <Alert
      kind="warning"
      message={trans.__(
        'This page is from jupyter-tpu %1, the server runs %2.',
        VERSION,
        server
      )}
      hint={
        newer
          ? trans.__('Save your work, then reload the page.')
          : trans.__('Restart the Jupyter server to complete the update.')
      }
    >
      {newer && (
        <TextButton main onClick={() => window.location.reload()}>
          {trans.__('Reload')}
        </TextButton>
      )}
    </Alert>
  );
}

/** So many are found at a glance; above that there is a field to search in. */
const FILTERED_ABOVE = 10;

function Rows(props: IPanelProps & { tpus: ITPU[] }): JSX.Element {
  const { actions, menu, tpus } = props;
  const { model } = actions;
  const [query, setQuery] = useState('');
  const words = query.toLowerCase().split(/\s+/);
  const many = tpus.length > FILTERED_ABOVE;
  const shown = many
    ? tpus.filter(tpu => {
        const { label } = tpuStatus(tpu);
        const text = `${tpu.name} ${tpu.type} ${tpu.zone} ${label}`;
        return words.every(word => text.toLowerCase().includes(word));
      })
    : tpus;
  return (
    <>
      {many && (
        <div className="jp-tpu-Filter">
          <input
            type="search"
            className="jp-mod-styled"
            aria-label={trans.__('Filter TPUs')}
            placeholder={trans.__('Filter: name, type, zone or state')}
            spellCheck={false}
            value={query}
            onChange={event => setQuery(event.target.value)}
          />
        </div>
      )}
      <ul className="jp-tpu-List" aria-label={trans.__('TPUs')}>
        {shown.map(tpu => (
          <TPU
            key={keyOf(tpu)}
            tpu={tpu}
            able={actions.available(tpu)}
            marked={tpu.emulated && !model.catalog?.emulated}
            actions={actions}
            menu={menu}
          />
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="jp-tpu-Filter-none" role="status">
          {trans.__('No TPU matches.')}
        </p>
      )}
    </>
  );
}

/**
 * Moves the focus to the row of what was created, or to its hunt; from a row that is gone to what says
 * why, or to its neighbor.
 */
function useFocus(
  list: RefObject<HTMLDivElement>,
  shown: string,
  { view }: Actions
): void {
  const focused = useRef({ row: -1, tpu: '' });
  useEffect(() => {
    const rows = [
      ...(list.current?.querySelectorAll<HTMLElement>('.jp-tpu-TPU') ?? [])
    ];
    const operations = [
      ...(list.current?.querySelectorAll<HTMLElement>('[data-kind]') ?? [])
    ];
    const hunts = operations.filter(one => one.dataset.kind === 'hunt');
    const failed = operations.filter(one =>
      one.classList.contains('jp-mod-failed')
    );
    const { row, tpu } = focused.current;
    const focus = (row: HTMLElement | undefined) => {
      const first =
        row?.querySelector<HTMLElement>('.jp-tpu-Alert button') ??
        row?.querySelector('button');
      first?.focus();
      row?.scrollIntoView?.({ block: 'nearest' });
    };
    const awaited = [...rows, ...hunts].find(
      row => row.dataset.tpu === view.awaited
    );
    const { activeElement } = document;
    const lost = activeElement === document.body || activeElement === null;
    if (awaited) {
      view.awaited = '';
      focus(awaited);
    } else if (lost && row >= 0) {
      focus(
        failed.find(one => one.dataset.tpu === tpu) ??
          rows[Math.min(row, rows.length - 1)]
      );
    }
    const now = rows.findIndex(one => one.contains(document.activeElement));
    focused.current = { row: now, tpu: rows[now]?.dataset.tpu ?? '' };
  }, [shown]);
}

/** Operations that have ended. */
function Ended(props: {
  operations: IOperation[];
  actions: Actions;
}): JSX.Element {
  const { operations, actions } = props;
  const { model, view } = actions;
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
          <Some id="ended" actions={actions} label={trans.__('operations')}>
            {operations.map(operation => (
              <Operation
                key={operation.id}
                operation={operation}
                actions={actions}
              />
            ))}
          </Some>
        </div>
      )}
    </section>
  );
}

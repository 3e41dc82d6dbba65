// What the sidebar shows: the list of TPUs, what runs or has failed, and the panel's pages.

import {
  addIcon,
  caretLeftIcon,
  ellipsesIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import React, { lazy, Suspense, useRef } from 'react';

import { IPanelActions } from '../actions/panelActions';
import { useActions } from '../actions/useActions';
import { PackagesForm } from '../environments/packagesForm';
import { trans } from '../language/translation';
import { ConnectForm } from '../lifecycle/connectForm';
import { CheckSetup } from '../lifecycle/formPage';
import { operationTitle } from '../model/operationLabels';
import { POLL } from '../model/synchronizer';
import { BudgetLine } from '../money/budgetLine';
import { Operation } from '../operations/operationView';
import { ICatalog, IOperation } from '../rest/api';
import { failureText, serverProblems } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { VERSION } from '../rest/version';
import {
  Alert,
  Disclosure,
  EmptyState,
  IconButton,
  Link,
  TextButton
} from '../ui/elements';
import { useSome } from '../ui/listSection';
import { useStore } from '../ui/useStore';
import { Page } from '../ui/viewState';
import { Alerts, hasAlerts, isUrgent } from './alerts';
import { TPUList, useFocus } from './tpuList';

/** The pages beside the list, which is what most people see. */
const Form = lazy(() => import('./pages'));

export default function Panel() {
  const actions = useActions();
  const model = useStore(actions.model);
  const view = useStore(actions.view);
  const usable = model.phase === 'ready';
  const page = usable ? view.page : 'list';
  const title = pageTitle(actions, page);
  const toList = () => view.show('list');
  return (
    <>
      <div className="jp-tpu-Header">
        {page !== 'list' ? (
          <>
            <IconButton
              icon={caretLeftIcon}
              label={trans.__('Back to the list')}
              onClick={toList}
            />
            <h2 title={title}>{title}</h2>
          </>
        ) : (
          <>
            <h2>{title}</h2>
            <IconButton
              icon={addIcon}
              label={trans.__('New TPU')}
              disabled={!usable}
              onClick={() => void actions.openCreateForm()}
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
              onClick={event => void actions.openMenu(event.currentTarget)}
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
          <List />
        ) : (
          <Suspense fallback={<EmptyState busy title={trans.__('Loading…')} />}>
            <Form page={page} />
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

function Project({ catalog }: { catalog: ICatalog }) {
  const text = catalog.emulated
    ? trans.__('Emulator: no real TPUs, no costs')
    : catalog.project
      ? trans.__('Project %1', catalog.project)
      : trans.__('No project');
  return (
    <div className="jp-tpu-Project" title={text}>
      {text}
    </div>
  );
}

function pageTitle({ forms }: IPanelActions, page: Page): string {
  const environment = forms.of(ConnectForm).environment?.name;
  return {
    budgets: trans.__('Budgets'),
    connect: environment
      ? trans.__('Environment %1', environment)
      : trans.__('New Environment'),
    create: trans.__('New TPU'),
    grants: trans.__('Grants'),
    list: trans.__('TPU'),
    packages: trans.__(
      'Packages of %1',
      forms.of(PackagesForm).environment?.name ?? ''
    ),
    prices: trans.__('Prices'),
    queued: trans.__('Queued Resources'),
    tokens: trans.__('Tokens'),
    usage: trans.__('TPU Usage')
  }[page];
}

function List() {
  const { model } = useActions();
  const again = (
    <TextButton
      disabled={model.refreshing}
      onClick={() => void model.refresh()}
    >
      {trans.__('Try Again')}
    </TextButton>
  );
  const problem = model.problem && failureText(model.problem);
  switch (model.phase) {
    case 'loading':
      return <EmptyState busy title={trans.__('Loading TPUs…')} />;
    case 'ready':
      return <Loaded again={again} problem={problem} />;
    default:
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
}

/** The list, when it was loaded. */
function Loaded(props: {
  again: JSX.Element;
  problem: { message: string; hint: string } | null;
}) {
  const { again, problem } = props;
  const actions = useActions();
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
  useFocus(list, [...hunted, ...tpus.map(keyOf)].join());
  return (
    <div ref={list}>
      <StalePage />
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
      <BudgetLine />
      {(urgent.length > 0 || alerted.length > 0) && (
        <section className="jp-tpu-Urgent" aria-label={trans.__('Now')}>
          <Some id="urgent" label={trans.__('operations')}>
            {urgent.map(one => (
              <Operation key={one.id} operation={one} />
            ))}
          </Some>
          <Some id="alerted" label={trans.__('problems')}>
            {alerted.map(tpu => (
              <section
                key={keyOf(tpu)}
                aria-label={trans.__('Problems of %1', model.nameOf(tpu))}
              >
                {tpus.length > 1 && (
                  <Link onClick={() => void actions.open.tpu(tpu)}>
                    {model.nameOf(tpu)}
                  </Link>
                )}
                <Alerts tpu={tpu} />
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
            <TextButton main onClick={() => void actions.openCreateForm()}>
              <addIcon.react tag="span" elementSize="normal" />
              {trans.__('New TPU')}
            </TextButton>
          )}
          <CheckSetup />
        </EmptyState>
      )}
      {tpus.length > 0 && <TPUList tpus={tpus} />}
      {ended.length > 0 && <Ended operations={ended} />}
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
  children: JSX.Element[];
}) {
  const { children, id, label } = props;
  const name = trans.__('Show all %1 %2', children.length, label);
  const [some, more] = useSome(id, children, SHOWN, name);
  return (
    <>
      {some}
      {more}
    </>
  );
}

/** What to do where this page and the server are of two versions: after one of them was updated. */
function StalePage() {
  const actions = useActions();
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

/** Operations that have ended. */
function Ended(props: { operations: IOperation[] }) {
  const { operations } = props;
  const { model, view } = useActions();
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
          <Some id="ended" label={trans.__('operations')}>
            {operations.map(one => (
              <Operation key={one.id} operation={one} />
            ))}
          </Some>
        </div>
      )}
    </section>
  );
}

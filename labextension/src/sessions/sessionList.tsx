// The saved variables of a TPU's kernels, a part of its page.

import { saveIcon, settingsIcon, undoIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { facts, problemLine } from '../language/text';
import { clock, trans } from '../language/translation';
import { ISession } from '../rest/api';
import { failureText } from '../rest/failureText';
import { Alert, IconButton, Link } from '../ui/elements';
import { ListSection } from '../ui/listSection';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { changeSetting, forget, restoreInto, saveNow } from './sessionDialogs';
import { sessionFacts, settingText } from './sessionLabels';
import { sessionLists } from './sessionLists';
import { MissingVariables } from './sessionOutcomes';

/** Where the view keeps that they are folded, and that the user has just asked for them. */
export const FOLDED = 'sessions#folded';
export const WANTED = 'sessions#wanted';

export function Sessions({ tpu }: ITPUProps) {
  const actions = useActions();
  const { model, view } = actions;
  const list = useStore(sessionLists(model).of(tpu));
  const node = useRef<HTMLDivElement>(null);
  const possible = actions.available(tpu).includes('sessions');
  useEffect(() => {
    if (possible) {
      void list.load();
    }
  }, [list, possible, tpu.state, tpu.connection, tpu.sessions]);
  const wanted = view.isOpen(WANTED);
  useEffect(() => {
    if (wanted && node.current) {
      view.fold(WANTED, true);
      node.current.querySelector<HTMLElement>('button:enabled')?.focus();
    }
  }, [wanted]);
  if (!possible) {
    return null;
  }
  const { failure, value } = list;
  const ready = tpu.state === 'READY';
  const running = model.kernels(tpu).some(({ state }) => state !== 'dead');
  const problems = failure ? [failureText(failure)] : (value?.problems ?? []);
  return (
    <div ref={node}>
      <ListSection
        id="sessions"
        title={trans.__('Sessions')}
        label={trans.__('Saved variables')}
        none={
          !tpu.sessions &&
          problems.length === 0 &&
          trans.__('Variables that outlive their kernel')
        }
        aside={
          <span className="jp-tpu-Row-buttons">
            <IconButton
              icon={saveIcon}
              label={trans.__('Save the variables of all kernels now')}
              disabled={!ready || !running}
              onClick={() => void saveNow(tpu, model)}
            />
            <IconButton
              icon={settingsIcon}
              label={trans.__('When variables are saved, and where…')}
              onClick={() => void changeSetting(tpu, model)}
            />
          </span>
        }
        above={
          <>
            <p>{settingText(tpu.sessions)}</p>
            {problems.map((problem, index) => (
              <Alert key={index} kind="warning" {...problem} />
            ))}
          </>
        }
        items={value?.sessions ?? []}
        limit={8}
        sorts={[
          ['name', trans.__('Name'), ({ name }) => name],
          ['saved', trans.__('Saved'), ({ saved }) => saved],
          ['size', trans.__('Size'), ({ size }) => size]
        ]}
        row={session => (
          <SessionRow key={session.id} session={session} tpu={tpu} />
        )}
      />
    </div>
  );
}

function SessionRow({ session, tpu }: ITPUProps & { session: ISession }) {
  const actions = useActions();
  const { model, view } = actions;
  const { interrupted, missing_count: count, name, problem } = session;
  const ready = tpu.state === 'READY';
  const shown = `session-${session.id}`;
  return (
    <Row
      name={name}
      title={session.notebook || name}
      state={{
        label: problem ? trans.__('can’t be restored') : '',
        tone: 'bad'
      }}
      buttons={
        <IconButton
          icon={undoIcon}
          label={trans.__('Restore %1 into a kernel…', name)}
          disabled={!ready || !!problem}
          onClick={() => void restoreInto(session, tpu, actions)}
        />
      }
      remove={{
        label: trans.__('Forget %1…', name),
        disabled: !ready,
        run: () => forget(session, tpu, model)
      }}
      more={facts(sessionFacts(session), problemLine(problem))}
    >
      {(interrupted || count > 0) && (
        <span className="jp-tpu-Row-more">
          {interrupted &&
            trans.__(
              'A cell was interrupted %1.',
              clock(interrupted.ended)
            )}{' '}
          {count > 0 && (
            <Link
              label={trans.__('Variables of %1 that were not kept', name)}
              onClick={() => view.toggle(shown)}
            >
              {trans._n(
                '%1 variable was not kept',
                '%1 variables were not kept',
                count
              )}
            </Link>
          )}
        </span>
      )}
      {view.isOpen(shown) && (
        <div className="jp-tpu-Row-more">
          <MissingVariables missing={session.missing} missing_count={count} />
        </div>
      )}
    </Row>
  );
}

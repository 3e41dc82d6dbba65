// Requests that wait at Google until there is room for their TPUs.

import React, { useEffect } from 'react';

import { deleteQueued, resetQueued } from '../actions/questions';
import { useActions } from '../actions/useActions';
import { facts, problemLine } from '../language/text';
import { clock, Tone, trans } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { queuedState } from '../money/queuedLabels';
import { IQueuedResource } from '../rest/api';
import { failureText } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { Alert, StateLabel, TextButton } from '../ui/elements';
import { Listed, Rows } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';

/** A command to type, so not translated. */
const COMMAND =
  'jupyter tpu queued create my-tpu --node-count 2 --type v5litepod-16';

/** How often it is looked at while the page is open; milliseconds. */
const EVERY = 20_000;

const TONES: { [state: string]: Tone } = {
  ACTIVE: 'good',
  FAILED: 'bad',
  SUSPENDED: 'bad'
};

export function QueuedPage() {
  const actions = useActions();
  const list = useStore(actions.forms.queued);
  useEffect(() => {
    const timer = setInterval(
      () => void (document.hidden || list.load(false)),
      EVERY
    );
    return () => clearInterval(timer);
  }, [list]);
  return (
    <div className="jp-tpu-Form">
      <p>
        {trans.__(
          'A queued resource waits at Google until there is capacity for its TPUs, even while this computer is off.'
        )}
      </p>
      {list.changes.failure && <Alert {...failureText(list.changes.failure)} />}
      <Listed
        list={list}
        items={list.value?.queued ?? null}
        problem={list.value?.problem}
        loading={trans.__('Loading queued resources…')}
        none={trans.__('There are no queued resources.')}
      >
        {items => (
          <Rows title={trans.__('Queued Resources')}>
            {items.map(one => (
              <Queued key={keyOf(one)} queued={one} />
            ))}
          </Rows>
        )}
      </Listed>
      <p>
        {trans.__(
          'Request a TPU from the queue. The request waits until there is capacity, or for as long as you choose. The TPU is then connected.'
        )}
      </p>
      <div className="jp-tpu-Buttons">
        <TextButton main onClick={() => void actions.openQueueForm()}>
          {trans.__('Wait for a TPU…')}
        </TextButton>
      </div>
      <p>
        {trans.__('For several TPUs (a multislice), in a terminal:')}{' '}
        <code>{COMMAND}</code>
      </p>
    </div>
  );
}

function Queued({ queued }: { queued: IQueuedResource }) {
  const actions = useActions();
  const list = actions.forms.queued;
  const { name, problem, state, tier, tpus, type, valid_until, zone } = queued;
  return (
    <Row
      name={name}
      remove={{
        label: trans.__('Delete %1', name),
        disabled: list.busy || state === 'DELETING',
        run: () => deleteQueued(actions, queued)
      }}
      more={
        <>
          <StateLabel tone={TONES[state] ?? 'moving'}>
            {queuedState(state)}
          </StateLabel>
          <br />
          {facts(
            type,
            zone,
            tierLabel(tier),
            queued.emulated && trans.__('emulated'),
            tpus.length > 1 && tpus.join(', '),
            valid_until && trans.__('until %1', clock(valid_until))
          )}
          <br />
          {problemLine(problem) || queued.meaning}
          {queued.can_reset && (
            <TextButton
              disabled={list.busy}
              onClick={() => void resetQueued(actions, queued)}
            >
              {trans.__('Reset')}
            </TextButton>
          )}
        </>
      }
    />
  );
}

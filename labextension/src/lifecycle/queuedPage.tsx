// Requests that wait at Google until there is capacity for their TPUs.

import React, { useEffect } from 'react';

import { IPanelActions } from '../actions/panelActions';
import { useActions } from '../actions/useActions';
import { facts, problemLine } from '../language/text';
import { clock, Tone, trans } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { queuedState } from '../money/queuedLabels';
import { IQueuedResource } from '../rest/api';
import { failureText } from '../rest/failureText';
import { confirmed, keyOf } from '../rest/tpuRef';
import { confirm } from '../ui/confirm';
import { Alert, StateLabel, TextButton } from '../ui/elements';
import { Listed, Rows } from '../ui/listed';
import { named } from '../ui/named';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { QueuedList } from './queuedList';

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
  const list = useStore(actions.forms.of(QueuedList));
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
  const list = actions.forms.of(QueuedList);
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

/** Deletes a queued resource, with the TPUs that it was shown to have, and their disks. */
async function deleteQueued(
  { forms, model }: IPanelActions,
  queued: IQueuedResource
): Promise<void> {
  const { has_tpus, name, tpus } = queued;
  const agreed = await confirm(
    trans.__('Delete the queued resource %1?', name),
    has_tpus
      ? trans.__(
          'Its TPUs will be deleted, too, with everything on their disks: %1.',
          tpus.join(', ')
        )
      : trans.__('It is removed from Google’s queue.'),
    trans.__('Delete')
  );
  if (agreed) {
    const title = trans.__('Delete %1?', name);
    await named(queued, title, trans.__('Delete'), typed =>
      forms.of(QueuedList).changes.send(() =>
        model.client.queued.delete(queued, {
          force: has_tpus,
          ...confirmed(typed)
        })
      )
    );
  }
}

/** Puts a queued resource back into the queue. */
async function resetQueued(
  { forms, model }: IPanelActions,
  queued: IQueuedResource
): Promise<void> {
  const title = trans.__('Reset %1?', queued.name);
  await named(queued, title, trans.__('Reset'), async name => {
    const { changes } = forms.of(QueuedList);
    const { queued: requests } = model.client;
    if (await changes.send(() => requests.reset(queued, confirmed(name)))) {
      await forms.of(QueuedList).load();
    }
  });
}

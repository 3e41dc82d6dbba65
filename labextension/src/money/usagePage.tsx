// Every TPU and queued resource, the most expensive first, and whose it is.

import { ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { useActions } from '../actions/useActions';
import { facts } from '../language/text';
import { ago, trans } from '../language/translation';
import { ITPU, IUsedTPU } from '../rest/api';
import { failureText } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { Alert, EmptyState, IconButton, TextButton } from '../ui/elements';
import { FormFields } from '../ui/fields';
import { PanelForm, Rows } from '../ui/listed';
import { named } from '../ui/named';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { ownerLabel, ownerSummary, usedCost, usedStatus } from './usageLabels';
import { UsageList } from './usageList';

export function UsagePage() {
  const list = useStore(useActions().forms.of(UsageList));
  const { failure, value: usage } = list;
  return (
    <PanelForm label={trans.__('TPU Usage')} onSubmit={() => list.load()}>
      {failure && <Alert {...failureText(failure)} />}
      {usage?.problems.map(problem => (
        <Alert key={problem.message} kind="warning" {...failureText(problem)} />
      ))}
      {usage === null ? (
        !failure && <EmptyState busy title={trans.__('Loading usage…')} />
      ) : usage.tpus.length === 0 ? (
        <p role="status">
          {trans.__('There are no TPUs and no queued resources.')}
        </p>
      ) : (
        <>
          <ul className="jp-tpu-Owners" aria-label={trans.__('Owners')}>
            {usage.owners.map(owner => (
              <li key={`${owner.owner}/${owner.mine}`}>
                {ownerSummary(owner, usage.chips)}
              </li>
            ))}
          </ul>
          <Rows title={trans.__('TPUs and queued resources')}>
            {usage.tpus.map(used => (
              <Used
                key={`${used.kind}/${used.project}/${used.zone}/${used.name}`}
                used={used}
              />
            ))}
          </Rows>
        </>
      )}
      <FormFields
        form={list}
        fields={[
          {
            name: 'projects',
            label: trans.__('Projects'),
            help: trans.__(
              'IDs separated by commas; empty: this server’s project'
            ),
            placeholder: usage?.projects.join(', '),
            autoComplete: 'off'
          }
        ]}
      />
      <div className="jp-tpu-Buttons">
        <TextButton type="submit" disabled={list.loading}>
          {trans.__('Refresh')}
        </TextButton>
      </div>
    </PanelForm>
  );
}

function Used({ used }: { used: IUsedTPU }) {
  const actions = useActions();
  const { model } = actions;
  const { label, tone } = usedStatus(used);
  const tpu =
    used.kind === 'tpu' &&
    model.tpus.find(
      one => one.project === used.project && keyOf(one) === keyOf(used)
    );
  const failure = tpu && model.failure(tpu);
  const cost = usedCost(used);
  return (
    <Row
      name={used.name}
      state={{ label, tone, title: used.advice }}
      buttons={
        tpu ? (
          <IconButton
            icon={ellipsesIcon}
            label={trans.__('Actions for %1', used.name)}
            hasPopup
            onClick={event => void actions.openMenu(event.currentTarget, tpu)}
          />
        ) : (
          used.kind === 'queued' &&
          used.project === model.catalog?.project && (
            <IconButton
              icon={ellipsesIcon}
              label={trans.__('Show the queued resource %1', used.name)}
              onClick={() => void actions.openPage('queued')}
            />
          )
        )
      }
      more={
        <>
          {facts(
            used.kind === 'queued' && trans.__('queued resource'),
            used.type,
            used.zone,
            ownerLabel(used),
            ago(used.created, Date.now())
          )}
          <br />
          {cost && used.advice
            ? trans.__('%1. %2', cost, used.advice)
            : cost || used.advice}
          {tpu && !used.mine && (
            <div className="jp-tpu-Buttons">
              <TextButton
                title={trans.__('Label it as yours')}
                onClick={() => void adopt(actions, tpu)}
              >
                {tpu.not_yours ? trans.__('Adopt…') : trans.__('Adopt')}
              </TextButton>
            </div>
          )}
          {failure && <Alert {...failureText(failure)} />}
        </>
      }
    />
  );
}

/** Makes a TPU the user's. */
async function adopt(
  { forms, model }: IPanelActions,
  tpu: ITPU
): Promise<void> {
  const title = trans.__('Adopt %1?', tpu.name);
  await named(tpu, title, trans.__('Adopt'), confirm_name =>
    model.send(tpu, async client => {
      await client.usage.adopt(tpu, { confirm_name });
      await forms.of(UsageList).load();
    })
  );
}

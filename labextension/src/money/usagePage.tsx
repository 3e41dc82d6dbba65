// Every TPU and queued resource, the most expensive first, and whose it is.

import { ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { keyOf } from '../model/resources';
import { TPUMenu } from '../panel/menu';
import { IUsedTPU } from '../rest/api';
import { Alert, EmptyState, IconButton, TextButton } from '../ui/elements';
import { failureText } from '../ui/failures';
import { Fields } from '../ui/fields';
import { PanelForm, Rows } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/store';
import { ago, trans } from '../ui/translation';
import { ownerLabel, ownerSummary, usedCost, usedStatus } from './usageLabels';

interface IUsageProps {
  actions: Actions;
  menu: TPUMenu;
}

export function UsagePage(props: IUsageProps): JSX.Element {
  const { actions } = props;
  const list = useStore(actions.usageList);
  const { failure, usage } = list;
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
                {...props}
              />
            ))}
          </Rows>
        </>
      )}
      <Fields
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
        values={{ projects: list.projects }}
        onChange={(_, value) => (list.projects = value)}
      />
      <div className="jp-tpu-Buttons">
        <TextButton type="submit" disabled={list.busy}>
          {trans.__('Refresh')}
        </TextButton>
      </div>
    </PanelForm>
  );
}

function Used(props: IUsageProps & { used: IUsedTPU }): JSX.Element {
  const { actions, menu, used } = props;
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
            onClick={event =>
              menu.openFor(event.currentTarget, actions.available(tpu), tpu)
            }
          />
        ) : (
          used.kind === 'queued' &&
          used.project === model.catalog?.project && (
            <IconButton
              icon={ellipsesIcon}
              label={trans.__('Show the queued resource %1', used.name)}
              onClick={() => actions.openQueued()}
            />
          )
        )
      }
      more={
        <>
          {[
            used.kind === 'queued' && trans.__('queued resource'),
            used.type,
            used.zone,
            ownerLabel(used),
            ago(used.created, Date.now())
          ]
            .filter(Boolean)
            .join(' · ')}
          <br />
          {cost && used.advice
            ? trans.__('%1. %2', cost, used.advice)
            : cost || used.advice}
          {tpu && !used.mine && (
            <div className="jp-tpu-Buttons">
              <TextButton
                title={trans.__('Label it as yours')}
                onClick={() => void actions.adopt(tpu)}
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

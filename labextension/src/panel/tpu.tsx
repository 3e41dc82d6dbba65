// One TPU in the list.

import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, Button, ellipsesIcon } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

import { Actions } from '../actions/actions';
import { EnvironmentAlert } from '../environments/environments';
import { kernelCountLabel } from '../kernels/kernelLabels';
import { Action, primaryAction } from '../model/availableActions';
import { isSame, keyOf } from '../model/resources';
import { priceSource, tpuCost } from '../money/costLabels';
import { Operation } from '../operations/operationView';
import { IEnvironment, IOperation, ITPU } from '../rest/api';
import { Disclosure, IconButton, StateLabel, Alert } from '../ui/elements';
import { failureText, problemText } from '../ui/failures';
import { actionIcon } from '../ui/icons';
import { Details } from './details';
import { TPUMenu } from './menu';
import {
  actionLabel,
  maintenanceText,
  notebookDevices,
  tpuStatus
} from './tpuLabels';

export function TPU(props: {
  tpu: ITPU;
  operations: IOperation[];
  actions: Actions;
  menu: TPUMenu;
}): JSX.Element {
  const { tpu, operations, actions, menu } = props;
  const { model, trans, view } = actions;
  const key = keyOf(tpu);
  const details = useId();
  const open = view.isOpen(key);
  const able = actions.available(tpu);
  const main = primaryAction(able);
  const failure = model.failure(tpu);
  const status = tpuStatus(tpu, trans);
  const cost = tpuCost(tpu, trans);
  const type = model.catalog?.types.find(one => one.name === tpu.type);
  const refused = model
    .runningOn(tpu)
    .find(operation => operation.undeleted === 'retrying');
  const maintenance = maintenanceText(tpu, trans, actions.language);
  const isTheProblem = (one: IEnvironment) => isSame(one.problem, tpu.problem);
  return (
    <li className="jp-tpu-TPU" aria-label={tpu.name}>
      <div className="jp-tpu-TPU-head">
        <Disclosure
          open={open}
          controls={details}
          className="jp-tpu-TPU-name"
          onToggle={() => actions.toggleDetails(tpu)}
        >
          <span className="jp-tpu-TPU-label" title={key}>
            {tpu.name}
          </span>
        </Disclosure>
        {/* Where all are, the panel's head says so. */}
        {tpu.emulated && !model.catalog?.emulated && <Emulated trans={trans} />}
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('Actions for %1', tpu.name)}
          hasPopup
          disabled={able.length === 0}
          onClick={event => menu.openFor(event.currentTarget, able, tpu)}
        />
      </div>
      <div className="jp-tpu-TPU-body">
        <div className="jp-tpu-TPU-meaning">
          {tpu.attached && !tpu.chips ? tpu.zone : `${tpu.type} · ${tpu.zone}`}
          <br />
          {tpu.meaning}
          {type && tpu.hosts.length > 1 && (
            <>
              <br />
              {notebookDevices(type, trans)}
            </>
          )}
        </div>
        <div className="jp-tpu-TPU-states">
          <StateLabel tone={status.tone}>{status.label}</StateLabel>
          {tpu.kernels > 0 && (
            <span className="jp-tpu-State">
              {kernelCountLabel(tpu.kernels, trans)}
            </span>
          )}
        </div>
        {tpu.state !== 'READY' && !tpu.problem && tpu.advice && (
          <div>{tpu.advice}</div>
        )}
        {cost && (
          <div title={priceSource(tpu.cost, tpu.tier, trans)}>{cost}</div>
        )}
        {/* While it goes on, the TPU's problem says so. */}
        {maintenance && !(tpu.maintenance?.ongoing && tpu.problem) && (
          <Alert kind="warning" {...maintenance} />
        )}
        {tpu.problem && !tpu.environments.some(isTheProblem) && (
          <Alert kind="warning" {...problemText(tpu.problem, trans)}>
            {refused && (
              <Button
                className="jp-tpu-Button"
                onClick={() => void actions.stopTrying(tpu, refused)}
              >
                {trans.__('Stop Trying…')}
              </Button>
            )}
          </Alert>
        )}
        {tpu.environments.map(environment => (
          <EnvironmentAlert
            key={environment.name}
            environment={environment}
            tpu={tpu}
            actions={actions}
          />
        ))}
        {failure && (
          <Alert {...failureText(failure, trans)}>
            <Button
              className="jp-tpu-Button"
              onClick={() => model.dismissFailure(tpu)}
            >
              {trans.__('Dismiss')}
            </Button>
          </Alert>
        )}
        {operations.map(operation => (
          <Operation
            key={operation.id}
            operation={operation}
            actions={actions}
          />
        ))}
        {main && (
          <div className="jp-tpu-Buttons">
            <Main action={main} tpu={tpu} actions={actions} />
          </div>
        )}
        {open && <Details id={details} tpu={tpu} actions={actions} />}
      </div>
    </li>
  );
}

function Emulated(props: { trans: TranslationBundle }): JSX.Element {
  return (
    <span
      className="jp-tpu-Badge"
      title={props.trans.__('Runs on this machine: no chips, no costs')}
    >
      {props.trans.__('emulated')}
    </span>
  );
}

function Main(props: {
  action: Action;
  tpu: ITPU;
  actions: Actions;
}): JSX.Element {
  const { action, tpu, actions } = props;
  // The notebook icon is orange, which is not readable on the button.
  const Icon = action === 'notebook' ? addIcon : actionIcon(action);
  return (
    <Button
      className={`jp-tpu-Button ${action === 'delete' ? '' : 'jp-mod-main'}`}
      onClick={() => void actions.act(action, tpu)}
    >
      <Icon.react tag="span" elementSize="normal" />
      {actionLabel(action, actions.trans)}
    </Button>
  );
}

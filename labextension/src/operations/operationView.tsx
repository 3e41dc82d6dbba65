// An operation: its progress while it runs, its end, its steps and its log.

import {
  checkIcon,
  closeIcon,
  errorIcon,
  LabIcon
} from '@jupyterlab/ui-components';
import React, { useId, useLayoutEffect, useRef } from 'react';

import { IPanelActions } from '../actions/panelActions';
import { useActions } from '../actions/useActions';
import { resultOf, wouldOverwrite } from '../files/results';
import { FileResult } from '../files/resultView';
import { SyncSummary } from '../files/syncView';
import { HuntAttempts, HuntOutlook } from '../hunts/huntView';
import { trans } from '../language/translation';
import { OtherZones } from '../lifecycle/otherZones';
import {
  currentStep,
  operationTitle,
  stepStateLabel,
  stepLabel
} from '../model/operationLabels';
import { IOperation, IStep } from '../rest/api';
import { failureText } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { SessionOutcomes } from '../sessions/sessionOutcomes';
import { Alert, Disclosure, IconButton, TextButton } from '../ui/elements';
import { cancel, createElsewhere, retry } from './again';

interface IProps {
  operation: IOperation;
}

export function Operation({ operation }: IProps) {
  const actions = useActions();
  const { model, view } = actions;
  const details = useId();
  const open = view.isOpen(operation.id);
  const title = operationTitle(operation);
  const running = operation.state === 'running';
  const cancelling = model.isCancelling(operation);
  const over = operation.state === 'done' || operation.state === 'cancelled';
  const synced = resultOf('sync', operation);
  const hunt = model.hunts.get(operation.id);
  const toggle = () => toggleDetails(actions, operation);
  return (
    <section
      className={`jp-tpu-Operation jp-mod-${operation.state}`}
      aria-label={title}
      data-kind={operation.kind}
      data-tpu={keyOf({ name: operation.tpu, zone: operation.zone })}
    >
      <div className="jp-tpu-Operation-head">
        {over ? (
          // One line is enough for what needs no attention.
          <Disclosure
            open={open}
            controls={details}
            className="jp-tpu-Operation-title"
            onToggle={toggle}
          >
            <EndIcon operation={operation} />
            {title}
          </Disclosure>
        ) : (
          <>
            <EndIcon operation={operation} />
            <span className="jp-tpu-Operation-title">{title}</span>
          </>
        )}
        {running && operation.cancellable ? (
          <IconButton
            icon={closeIcon}
            label={hunt ? trans.__('Stop') : trans.__('Cancel')}
            disabled={cancelling}
            onClick={() => void cancel(actions, operation)}
          />
        ) : (
          // Google goes on with what runs, whoever waits.
          <IconButton
            icon={closeIcon}
            label={running ? trans.__('Stop waiting') : trans.__('Dismiss')}
            onClick={() => model.dismiss(operation.id)}
          />
        )}
      </div>
      {running && (
        <>
          {/* A sync that waits for changes is at no end. */}
          {!(operation.kind === 'sync' && operation.progress === 1) && (
            <Progress value={operation.progress} label={title} />
          )}
          {(cancelling || !hunt?.next_attempt) && (
            <div className="jp-tpu-Operation-step">
              {cancelling ? trans.__('Cancelling…') : currentStep(operation)}
            </div>
          )}
          {hunt && (
            <>
              <HuntOutlook hunt={hunt} />
              {!open && <HuntAttempts hunt={hunt} limit={3} />}
            </>
          )}
        </>
      )}
      {operation.state === 'failed' && (
        <Alert
          {...failureText(
            operation.problem ?? {
              message: operation.message,
              hint: '',
              reason: ''
            }
          )}
        >
          <TextButton onClick={() => void retry(actions, operation)}>
            {wouldOverwrite(operation)
              ? trans.__('Overwrite')
              : ['restart', 'restore', 'save'].includes(operation.kind)
                ? trans.__('Sessions…')
                : operation.kind !== 'environment'
                  ? trans.__('Try Again')
                  : actions.isPackageChange(operation)
                    ? trans.__('Packages…')
                    : trans.__('Show Environments')}
          </TextButton>
          {operation.kind === 'create' &&
            operation.problem?.reason === 'NO_CAPACITY' && (
              <>
                <TextButton
                  onClick={() => void createElsewhere(actions, operation)}
                >
                  {trans.__('Hunt in More Zones…')}
                </TextButton>
                <ElsewhereLinks operation={operation} />
              </>
            )}
        </Alert>
      )}
      {synced && <SyncSummary operation={operation} result={synced} />}
      {!over && <OperationDetails operation={operation} />}
      {over && open && <Lines id={details} operation={operation} />}
    </section>
  );
}

/** Leads back to the form with another zone, if the request is known in this page. */
function ElsewhereLinks({ operation }: IProps) {
  const actions = useActions();
  const request = actions.model.createRequest(operation);
  return request ? (
    <OtherZones
      catalog={actions.model.catalog}
      request={request}
      onPick={zone => void createElsewhere(actions, operation, zone)}
    />
  ) : null;
}

/** An operation's steps and log, folded until the user wants them. */
export function OperationDetails({ operation }: IProps) {
  const actions = useActions();
  const { view } = actions;
  const details = useId();
  const open = view.isOpen(operation.id);
  return (
    <>
      <Disclosure
        open={open}
        controls={details}
        className="jp-tpu-Operation-more"
        onToggle={() => toggleDetails(actions, operation)}
      >
        {open ? trans.__('Hide details') : trans.__('Show details')}
      </Disclosure>
      {open && <Lines id={details} operation={operation} />}
    </>
  );
}

/** Shows its steps and its whole log, or hides them. */
function toggleDetails(
  { model, view }: IPanelActions,
  { id }: IOperation
): void {
  view.toggle(id);
  if (view.isOpen(id)) {
    void model.loadLog(id);
  }
}

function Lines({ id, operation }: IProps & { id: string }) {
  const { model } = useActions();
  const hunt = model.hunts.get(operation.id);
  return (
    <div id={id} className="jp-tpu-Operation-details">
      {hunt ? <HuntAttempts hunt={hunt} /> : <Steps steps={operation.steps} />}
      <FileResult operation={operation} />
      <SessionOutcomes operation={operation} />
      {!hunt && <Log lines={operation.log} />}
    </div>
  );
}

function EndIcon(props: { operation: IOperation }) {
  const icons: { [state in IOperation['state']]?: LabIcon } = {
    done: checkIcon,
    failed: errorIcon
  };
  const Icon = icons[props.operation.state];
  return Icon ? (
    <Icon.react
      tag="span"
      className="jp-tpu-Operation-icon"
      elementSize="normal"
    />
  ) : null;
}

function Progress({ value, label }: { value: number | null; label: string }) {
  const percent = value === null ? undefined : Math.round(value * 100);
  return (
    <div
      className={`jp-tpu-Progress ${value === null ? 'jp-mod-unknown' : ''}`}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <div
        className="jp-tpu-Progress-bar"
        style={percent === undefined ? undefined : { width: `${percent}%` }}
      />
    </div>
  );
}

function Steps({ steps }: { steps: IStep[] }) {
  if (steps.length === 0) {
    return null;
  }
  return (
    <ol className="jp-tpu-Steps" aria-label={trans.__('Steps')}>
      {steps.map((step, index) => (
        <li
          key={index}
          className={`jp-tpu-Step jp-mod-${step.state}`}
          aria-current={step.state === 'running' ? 'step' : undefined}
        >
          <span className="jp-tpu-Step-mark" aria-hidden="true" />
          <span>{stepLabel(step)}</span>
          <span className="jp-tpu-Step-state">
            {stepStateLabel(step.state)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Log({ lines }: { lines: string[] }) {
  const node = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // New lines are shown, unless the reader has scrolled up.
  useLayoutEffect(() => {
    if (node.current && atEnd.current) {
      node.current.scrollTop = node.current.scrollHeight;
    }
  }, [lines]);
  if (lines.length === 0) {
    return <p className="jp-tpu-Log-empty">{trans.__('No log lines yet.')}</p>;
  }
  return (
    <pre
      ref={node}
      className="jp-tpu-Log"
      role="log"
      aria-label={trans.__('Log')}
      tabIndex={0}
      onScroll={({ currentTarget: log }) => {
        atEnd.current =
          log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
      }}
    >
      {lines.join('\n')}
    </pre>
  );
}

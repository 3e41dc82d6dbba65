// The environments of a TPU, and what is wrong with them.

import { consoleIcon, notebookIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { facts, joined } from '../language/text';
import { clock, trans } from '../language/translation';
import { isBusy, startableEnvironments } from '../model/availableActions';
import { OperationDetails } from '../operations/operationView';
import { IEnvironment, Reason } from '../rest/api';
import { problemText } from '../rest/failureText';
import {
  Alert,
  IconButton,
  Link,
  StateLabel,
  TextButton
} from '../ui/elements';
import { Row } from '../ui/rows';

/** Reasons for which trying the same again does not help. */
const WRONG_REQUEST: Reason[] = ['ENVIRONMENT', 'INVALID', 'NO_PYTHON'];

/** "JAX 0.12.0" or "PyTorch 2.13.0": what uses the chips; "" if it is not installed. */
function frameworkVersion({ framework, jax, torch }: IEnvironment): string {
  if (framework === 'torch') {
    return torch && trans.__('PyTorch %1', torch);
  }
  return jax && trans.__('JAX %1', jax);
}

/** An environment in a TPU's details. */
export function Environment(props: ITPUProps & { environment: IEnvironment }) {
  const { environment, tpu } = props;
  const actions = useActions();
  const about = facts(
    environment.python && trans.__('Python %1', environment.python),
    frameworkVersion(environment),
    environment.devices &&
      trans._n(
        '%1 %2 device',
        '%1 %2 devices',
        environment.devices,
        environment.platform
      ),
    environment.warm.state === 'ready' &&
      trans.__('warm kernel (%1 MB)', Math.round(environment.warm.memory / 1e6))
  );
  const different = environment.versions?.different ?? [];
  const states = {
    failed: trans.__('incomplete'),
    making: trans.__('creating'),
    ready: ''
  };
  const can = startableEnvironments(tpu).includes(environment);
  const busy = isBusy(actions.model.runningOn(tpu));
  const own = environment.state === 'ready' && !environment.python_path;
  const remove = () =>
    void actions.kernels.destroy('environment', tpu, environment.name);
  return (
    <Row
      name={environment.name}
      title={`${environment.name} · ${environment.path}`}
      state={{
        label: states[environment.state],
        tone: environment.state === 'failed' ? 'bad' : 'moving'
      }}
      buttons={
        can && (
          <>
            <IconButton
              icon={notebookIcon}
              label={trans.__('New notebook in %1', environment.name)}
              onClick={() => void actions.open.notebook(tpu, environment)}
            />
            <IconButton
              icon={consoleIcon}
              label={trans.__('New console in %1', environment.name)}
              onClick={() => void actions.open.console(tpu, environment)}
            />
          </>
        )
      }
      more={
        <>
          {about}
          {different.length > 0 && (
            <StateLabel
              tone="bad"
              title={joined(
                '\n',
                ...different.map(one =>
                  trans.__('Host %1: %2', one.host, one.versions)
                ),
                trans.__('Checked at %1', clock(environment.versions!.time))
              )}
            >
              {trans._n(
                'Different versions on host %2',
                'Different versions on %1 hosts',
                different.length,
                different[0].host
              )}
            </StateLabel>
          )}
          <span className="jp-tpu-Row-links">
            {own && tpu.state === 'READY' && (
              <Link
                label={trans.__('Packages of %1…', environment.name)}
                onClick={() => actions.openPackages(tpu, environment)}
              >
                {trans.__('Packages…')}
              </Link>
            )}
            {own && tpu.hosts.length > 1 && !busy && (
              <Link
                label={trans.__(
                  'Give all hosts the packages that %1 has on host 0',
                  environment.name
                )}
                onClick={() =>
                  void actions.model.send(tpu, client =>
                    client.environments.syncPackages(tpu, environment.name)
                  )
                }
              >
                {trans.__('Sync Hosts')}
              </Link>
            )}
            {!busy && (
              <Link
                label={trans.__('Remove %1…', environment.name)}
                onClick={remove}
              >
                {trans.__('Remove…')}
              </Link>
            )}
          </span>
        </>
      }
    />
  );
}

/** Why an environment could not be created or changed, or what to know of it. It is shown here only, until it works. */
export function EnvironmentAlert(
  props: ITPUProps & { environment: IEnvironment }
) {
  const { environment, tpu } = props;
  const actions = useActions();
  const { asked, name, problem, state } = environment;
  if (!problem) {
    return null;
  }
  const operation = actions.model.failedOperation(environment);
  const { message, hint } = problemText(problem);
  const wrong = WRONG_REQUEST.includes(problem.reason);
  // It can be used all the same: a package that was asked for can't be imported, say.
  const usable = state === 'ready' && !asked;
  const remove = () => void actions.kernels.destroy('environment', tpu, name);
  return (
    <Alert
      message={trans.__('Environment %1: %2', name, message)}
      hint={hint}
      kind={usable || problem.reason === 'CANCELLED' ? 'warning' : 'error'}
    >
      {!(wrong && asked) && (
        <TextButton
          onClick={() => void actions.model.connect(tpu, { environment: name })}
        >
          {trans.__('Try Again')}
        </TextButton>
      )}
      {asked && (
        <TextButton
          onClick={() => void actions.openConnectForm(tpu, environment)}
        >
          {wrong ? trans.__('Fix…') : trans.__('Change…')}
        </TextButton>
      )}
      {state === 'failed' && (
        <TextButton onClick={remove}>{trans.__('Remove…')}</TextButton>
      )}
      {operation && <OperationDetails operation={operation} />}
    </Alert>
  );
}

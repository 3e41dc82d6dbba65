// The Pythons that were on the hosts before, each of which becomes a kernel by one click.

import React from 'react';

import { Actions, ITPUProps } from '../actions/actions';
import { isBusy } from '../model/availableActions';
import { IFoundPython, ITPU } from '../rest/api';
import { Alert, Link, StateLabel } from '../ui/elements';
import { failureText } from '../ui/failures';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';

export function FoundPythons({ tpu, actions }: ITPUProps): JSX.Element {
  const lookup = useStore(actions.foundPythons).of(tpu);
  const found = lookup?.found ?? null;
  const own = found?.pythons.filter(one => !one.base) ?? [];
  return (
    <>
      {found && <h4>{trans.__('Python environments on the hosts')}</h4>}
      {lookup?.failure && <Alert {...failureText(lookup.failure)} />}
      {found?.problems.map(one => (
        <Alert key={one} message={one} />
      ))}
      {found && (
        <ul>
          {own.map(python => (
            <FoundPython
              key={python.path}
              python={python}
              tpu={tpu}
              actions={actions}
            />
          ))}
        </ul>
      )}
      {found && own.length === 0 && (
        <p>{trans.__('No other environments were found.')}</p>
      )}
      {lookup?.loading ? (
        <span role="status">{trans.__('Searching…')}</span>
      ) : (
        <Link
          label={trans.__('Find virtual environments on the hosts')}
          onClick={() => void actions.foundPythons.load(tpu)}
        >
          {found ? trans.__('Search again') : trans.__('Find environments')}
        </Link>
      )}
    </>
  );
}

function FoundPython(props: {
  python: IFoundPython;
  tpu: ITPU;
  actions: Actions;
}): JSX.Element {
  const { actions, python, tpu } = props;
  const { different, ipykernel, jax, path, problem, version } = python;
  const used = tpu.environments.find(one => one.python_path === path);
  const facts = [
    version && trans.__('Python %1', version),
    jax && trans.__('JAX %1', jax),
    version && !ipykernel && trans.__('no ipykernel'),
    different.length > 0 &&
      trans.__('other versions on host %1', different.join(', '))
  ].filter(Boolean);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={path}>
        {path.replace(/\/bin\/python$/, '')}
      </span>
      {used && (
        <StateLabel tone="quiet" title={used.display_name}>
          {used.name}
        </StateLabel>
      )}
      <span className="jp-tpu-Row-more">
        {[...facts, problem].filter(Boolean).join(' · ')}
        {!used && !problem && !isBusy(actions.model.runningOn(tpu)) && (
          <span className="jp-tpu-Row-links">
            <Link
              label={trans.__('Add a kernel for %1', path)}
              onClick={() => void actions.usePython(tpu, python)}
            >
              {ipykernel ? trans.__('Add Kernel') : trans.__('Add Kernel…')}
            </Link>
          </span>
        )}
      </span>
    </li>
  );
}

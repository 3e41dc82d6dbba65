// The Pythons that were on the hosts before, each of which becomes a kernel by one click.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { ITPUProps, useActions } from '../actions/useActions';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { isBusy } from '../model/availableActions';
import { IFoundPython, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { Link } from '../ui/elements';
import { LookedUp } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';

export function FoundPythons({ tpu }: ITPUProps) {
  const lookup = useStore(useActions().foundPythons.of(tpu));
  return (
    <LookedUp
      title={trans.__('Python environments on the hosts')}
      lookup={lookup}
      items={lookup.value?.pythons.filter(one => !one.base)}
      problems={lookup.value?.problems}
      none={trans.__('No other environments were found.')}
      ask={{
        first: trans.__('Find environments'),
        again: trans.__('Search again'),
        label: trans.__('Find virtual environments on the hosts'),
        busy: trans.__('Searching…')
      }}
    >
      {python => <FoundPython key={python.path} python={python} tpu={tpu} />}
    </LookedUp>
  );
}

function FoundPython({ python, tpu }: ITPUProps & { python: IFoundPython }) {
  const actions = useActions();
  const { different, ipykernel, jax, path, problem, version } = python;
  const used = tpu.environments.find(one => one.python_path === path);
  const about = facts(
    version && trans.__('Python %1', version),
    jax && trans.__('JAX %1', jax),
    version && !ipykernel && trans.__('no ipykernel'),
    different.length > 0 &&
      trans.__('other versions on host %1', different.join(', ')),
    problem
  );
  return (
    <Row
      name={path.replace(/\/bin\/python$/, '')}
      title={path}
      state={
        used && { label: used.name, tone: 'quiet', title: used.display_name }
      }
      more={
        <>
          {about}
          {!used && !problem && !isBusy(actions.model.runningOn(tpu)) && (
            <span className="jp-tpu-Row-links">
              <Link
                label={trans.__('Add a kernel for %1', path)}
                onClick={() => void usePython(actions, tpu, python)}
              >
                {ipykernel ? trans.__('Add Kernel') : trans.__('Add Kernel…')}
              </Link>
            </span>
          )}
        </>
      }
    />
  );
}

/** Makes a kernel of a Python on the hosts; asks before ipykernel is installed there. */
async function usePython(
  { model }: IPanelActions,
  tpu: ITPU,
  { ipykernel, name, path }: IFoundPython
): Promise<void> {
  const agreed =
    ipykernel ||
    (await confirm(
      trans.__('Install ipykernel?'),
      trans.__(
        'Kernels need ipykernel, which is not installed in %1 on %2. Installed packages are not changed.',
        path,
        tpu.name
      ),
      trans.__('Install'),
      { harmless: true }
    ));
  if (agreed) {
    await model.connect(tpu, {
      environment: name,
      python_path: path,
      install_ipykernel: !ipykernel
    });
  }
}

// One kernel on all hosts of several TPUs: which ones it gets.

import React from 'react';

import { trans } from '../language/translation';
import {
  possibleSlices,
  startableEnvironments
} from '../model/availableActions';
import { TPUModel } from '../model/model';
import { ISlicesKernel, ITPU } from '../rest/api';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';

/** Asks for the TPUs, and adds the kernel to the kernel pickers. */
export async function addSlicesKernel(
  tpu: ITPU,
  model: TPUModel
): Promise<void> {
  const possible = possibleSlices(tpu, model.tpus);
  const environments = startableEnvironments(tpu)
    .map(({ name }) => name)
    .filter(name => possible.some(other => has(other, name)));
  if (environments.length === 0) {
    return; // the last of them was disconnected meanwhile
  }
  const queued = possible.filter(
    other => tpu.queued && other.queued === tpu.queued
  );
  let kernel: ISlicesKernel | undefined;
  const added = await ask({
    title: trans.__('Kernel on Several TPUs'),
    accept: trans.__('Add Kernel'),
    initial: {
      environment: environments[0],
      slices: queued.map(({ name }) => name)
    },
    fields: ({ environment }) => [
      <p>
        {trans.__(
          'One kernel runs each cell on all hosts of %1 and of these TPUs, as slices of one job.',
          tpu.name
        )}
      </p>,
      {
        name: 'slices',
        label: trans.__('Other TPUs in %1', tpu.zone),
        kind: 'ticks',
        choices: possible
          .filter(other => has(other, environment))
          .map(({ name, type }) => [name, `${name} (${type})`])
      },
      environments.length > 1 && {
        name: 'environment',
        label: trans.__('Environment'),
        kind: 'select',
        choices: environments.map(name => [name, name])
      }
    ],
    submit: async request => {
      kernel = await model.client.sliceKernels.add(tpu, request);
    }
  });
  if (added && kernel) {
    model.kernelspecsChanged.emit();
    notify.success(
      trans.__(
        '“%1” is in the launcher and in every kernel picker.',
        kernel.display_name
      )
    );
  }
}

function has(tpu: ITPU, environment: string): boolean {
  return startableEnvironments(tpu).some(({ name }) => name === environment);
}

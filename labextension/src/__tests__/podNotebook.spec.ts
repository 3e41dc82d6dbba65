import { expect, it } from 'vitest';

import { connectedTPU, listOf, openPanel, shows } from './opened';

it('a new notebook on a pod is on all hosts, or on host 0 if asked', async () => {
  const one = connectedTPU();
  const [environment] = one.environments;
  const pod = {
    ...one,
    environments: [{ ...environment, pod_kernelspec: 'pod-all-hosts' }]
  };
  const { actions, commands } = await openPanel(listOf(pod));
  const opened: unknown[] = [];
  commands.addCommand('notebook:create-new', {
    describedBy: { args: { type: 'object' } },
    execute: args => opened.push(args.kernelName)
  });
  for (const label of ['All Hosts', 'Host 0 Only', 'Cancel']) {
    const asked = actions.open.notebook(pod);
    await shows(document.body, 'New Notebook on my-tpu');
    const match = [...document.querySelectorAll('.jp-Dialog button')].find(
      candidate => candidate.textContent === label
    );
    (match as HTMLButtonElement).click();
    await asked;
  }
  expect(opened).toEqual(['pod-all-hosts', environment.kernelspec]);
  await actions.open.notebook(one);
  expect(opened).toHaveLength(3);
});

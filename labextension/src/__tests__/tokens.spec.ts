import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { button, hides, openPanel, press, shows, type } from './opened';
import { Answer, refused } from './server';

const FOUND = { name: 'HF_TOKEN', source: 'environment', hint: '' };
const MISSING = {
  name: 'WANDB_API_KEY',
  source: '',
  hint: 'Set it where Jupyter is started, or run `wandb login`.'
};

async function open(answers: { [call: string]: Answer }) {
  const opened = await openPanel(answers);
  await opened.commands.execute(CommandIDs.tokens);
  return opened;
}

/** Types a name and presses *Pass*. */
async function pass(node: HTMLElement, text: string): Promise<void> {
  const input = node.querySelector('input')!;
  type(input, text);
  await press(node, 'Pass');
}

it('shows where each token is found, and what to do about one that is not', async () => {
  const { node } = await open({ 'GET tokens': [200, [FOUND, MISSING]] });
  await shows(
    node,
    'HF_TOKENfrom an environment variable of the Jupyter server',
    'WANDB_API_KEYnot foundSet it where Jupyter is started, or run wandb login.'
  );
});

it('passes tokens by name and removes one', async () => {
  const { node, server } = await open({
    'GET tokens': [200, []],
    'POST tokens': [201, [FOUND, MISSING]],
    'DELETE tokens/HF_TOKEN': [204, '']
  });
  await shows(node, 'No token is passed to TPUs.');
  await pass(node, ' HF_TOKEN, WANDB_API_KEY ');
  await shows(node, 'HF_TOKEN');
  expect(node.querySelector('input')!.value).toBe('');
  expect(server.posts).toEqual([{ names: ['HF_TOKEN', 'WANDB_API_KEY'] }]);
  server.answers['GET tokens'] = [200, [MISSING]];
  button(node, 'Remove HF_TOKEN').click();
  await hides(node, 'HF_TOKEN');
  expect(node.textContent).toContain('WANDB_API_KEY');
});

it('keeps the name that the server refuses, and says why', async () => {
  const message = "PATH can't be passed on: hosts have their own.";
  const { node } = await open({
    'GET tokens': [200, []],
    'POST tokens': refused(message)
  });
  await shows(node, 'No token');
  await pass(node, 'PATH');
  await shows(node, message);
  expect(node.querySelector('input')!.value).toBe('PATH');
});

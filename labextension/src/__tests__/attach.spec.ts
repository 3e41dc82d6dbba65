import { afterEach, expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { IMachineCheck } from '../api';
import {
  answerDialog,
  dialogInputs,
  disposeWidgets,
  openPanel
} from './opened';
import { aTPU } from './server';

afterEach(disposeWidgets);

const CHECK: IMachineCheck = {
  name: 'box',
  ssh: 'box.lab',
  address: '10.0.0.7',
  port: 22,
  user: 'me',
  host_key: 'SHA256:abc',
  known: false
};

it('shows the host key of an unknown machine before it is attached', async () => {
  const { commands, server } = await openPanel({
    'POST attach-checks': [200, CHECK],
    'POST attached': [201, aTPU({ name: 'box', attached: true })]
  });
  const attach = async (answer: string) => {
    const done = commands.execute(CommandIDs.attach);
    const [ssh] = await dialogInputs(2);
    Object.getOwnPropertyDescriptor(
      HTMLInputElement.prototype,
      'value'
    )!.set!.call(ssh, 'box.lab');
    ssh.dispatchEvent(new Event('input', { bubbles: true }));
    await answerDialog('Attach');
    const question = await answerDialog(answer);
    await done;
    return question;
  };
  const question = await attach('Cancel');
  expect(question).toContain('SHA256:abc');
  expect(question).toContain('me@10.0.0.7:22');
  expect(server.bodies('POST attached')).toEqual([]);
  await attach('Trust and Attach');
  expect(server.bodies('POST attached')).toEqual([
    { ssh: 'box.lab', name: null, host_key: 'SHA256:abc' }
  ]);
});

import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { IMachineCheck } from '../rest/api';
import { answerDialog, aTPU, dialogInputs, openPanel, type } from './opened';

const CHECK: IMachineCheck = {
  name: 'pod',
  hosts: ['a', 'b', 'c'].map((letter, index) => ({
    ssh: `${letter}.lab`,
    address: `10.0.0.${index}`,
    port: 22,
    user: 'me',
    host_key: `SHA256:${letter}`,
    known: letter === 'b'
  }))
};

it('shows the host keys of unknown machines before they are attached', async () => {
  const { commands, server } = await openPanel({
    'POST attach-checks': [200, CHECK],
    'POST attached': [201, aTPU({ name: 'pod', attached: true })]
  });
  const attach = async (answer: string) => {
    const done = commands.execute(CommandIDs.attach);
    const [ssh, name] = await dialogInputs(2);
    type(ssh, 'a.lab b.lab, c.lab');
    await expect.poll(() => name.required).toBe(true);
    type(name, 'pod');
    await answerDialog('Attach');
    const question = await answerDialog(answer);
    await done;
    return question;
  };
  const question = await attach('Cancel');
  expect(question).toContain('2 machines');
  expect(question).toMatch(/a.lab \(me@10.0.0.0:22\)SHA256:a.*SHA256:c/);
  expect(question).not.toContain('b.lab');
  expect(server.bodies('POST attached')).toEqual([]);
  await attach('Trust and Attach');
  expect(server.bodies('POST attached')).toEqual([
    {
      ssh: ['a.lab', 'b.lab', 'c.lab'],
      name: 'pod',
      host_keys: ['SHA256:a', 'SHA256:b', 'SHA256:c']
    }
  ]);
});

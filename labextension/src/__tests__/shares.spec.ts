// Folders that hosts share: planned by an operation, done by its button, listed and taken back.

import { expect, it } from 'vitest';

import {
  IHostShare,
  IOperation,
  ISharedFolders,
  IShareFolder,
  ITPU
} from '../rest/api';
import {
  answerDialog,
  button,
  dialogInputs,
  openAction,
  openPage,
  shows,
  type
} from './opened';
import { anOperation, aProblem, aTPU, listOf } from './server';

const SHARES = 'tpus/us-central1-a~my-tpu/shares';

const TPU = aTPU();

const SHARED: ISharedFolders = {
  problems: ['host 2 of my-tpu: It does not answer.'],
  folders: [
    {
      path: '/home/me/data',
      tpu: 'my-tpu',
      hosts: [
        { tpu: 'my-tpu', host: 0, role: 'server', mounted: true, problem: '' },
        {
          tpu: 'my-tpu',
          host: 1,
          role: 'client',
          mounted: false,
          problem: 'It is away.'
        }
      ]
    }
  ],
  time: '2026-11-22T21:00:00Z'
};

function aHost(host: number, more: Partial<IHostShare> = {}): IHostShare {
  const steps = [{ text: 'systemctl enable x', content: 'What=10.0.0.1:/s\n' }];
  return {
    tpu: 'my-tpu',
    host,
    role: host ? 'client' : 'server',
    state: 'planned',
    steps,
    problem: null,
    ...more
  };
}

function aShare(
  hosts: IHostShare[],
  request: IShareFolder = { folder: 'data', tpus: [], dry_run: true }
): IOperation {
  return anOperation({
    kind: 'share',
    state: 'done',
    result: { request, path: '/home/me/data', hosts }
  });
}

/** The question which folder is shared, with *answer* to what is then asked for. */
function open(answer: IOperation, ...others: ITPU[]) {
  return openAction('share', TPU, {
    ...listOf(TPU, ...others),
    [`POST ${SHARES}`]: [202, answer]
  });
}

it('asks for the folder and other TPUs of the zone, shows the plan, and does it', async () => {
  const other = aTPU({ name: 'other', id: '2' });
  const far = aTPU({ name: 'far', id: '3', zone: 'europe-west4-a' });
  const plan = aShare([aHost(0, { steps: [] }), aHost(1), aHost(2)], {
    folder: 'data',
    tpus: ['other'],
    dry_run: true
  });
  const { done, server } = await open(plan, other, far);
  const [folder, with_other] = await dialogInputs(2);
  type(folder, 'data');
  with_other.click();
  await answerDialog('Show What Changes');
  const text = await answerDialog('Share');
  expect(text).toContain('Share /home/me/data?');
  expect(text).toContain('Hosts 1–2 of my-tpu');
  const request = { folder: 'data', tpus: ['other'] };
  expect(server.posts).toEqual([{ ...request, dry_run: true }]);
  expect(text).toContain('systemctl enable x\n  | What=10.0.0.1:/s');
  await expect
    .poll(() => server.posts[1])
    .toEqual({ ...request, dry_run: false });
  await done;
});

it('does nothing without an answer', async () => {
  const { done, server } = await open(aShare([]));
  await dialogInputs(1);
  await answerDialog('Cancel');
  await done;
  expect(server.posts).toEqual([]);
});

it('says which host can not share, and offers nothing', async () => {
  const problem = aProblem(
    'It has no systemd.',
    'CONFLICT',
    'TPU VMs have it.'
  );
  const plan = aShare([aHost(0), aHost(1, { problem })]);
  const { done, server } = await open(plan);
  await dialogInputs(1);
  await answerDialog('Show What Changes');
  const text = await answerDialog('Close');
  expect(text).toContain('/home/me/data can’t be shared');
  expect(text).toContain('It has no systemd. TPU VMs have it.');
  await done;
  expect(server.posts).toHaveLength(1);
});

it('lists the folders that hosts named when they were asked, and takes one back', async () => {
  const removal = { folder: '/home/me/data', remove: true, dry_run: true };
  const { changes, node, server } = await openPage(TPU, {
    [`POST ${SHARES}`]: [202, aShare([aHost(1)], removal)],
    [`GET ${SHARES}`]: [200, SHARED]
  });
  await shows(node, 'Show shared folders');
  expect(server.count(`GET ${SHARES}`)).toBe(0);
  button(node, 'Ask the hosts which folders they share').click();
  await server.counts(`GET ${SHARES}`);
  changes.tpu({ ...TPU, shares: SHARED });
  await shows(node, 'on 0 of 1 other hosts', 'Host 1 of my-tpu: It is away.');
  await shows(node, 'host 2 of my-tpu: It does not answer.');
  button(node, 'Stop sharing /home/me/data…').click();
  const text = await answerDialog('Stop Sharing');
  expect(text).toContain('Its files stay on host 0.');
  await expect
    .poll(() => server.posts)
    .toEqual([removal, { ...removal, dry_run: false }]);
  changes.tpu({ ...TPU, shares: { ...SHARED, folders: [], problems: [] } });
  await shows(node, 'No folder is shared.');
});

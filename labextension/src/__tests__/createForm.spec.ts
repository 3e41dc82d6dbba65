import { describe, expect, it } from 'vitest';

import { CreateDefaults } from '../lifecycle/createDefaults';
import { CreateForm } from '../lifecycle/createForm';
import {
  anOperation,
  Answer,
  aTPU,
  catalog,
  catalogWith,
  listOf,
  openModel,
  refused
} from './server';

async function openForm(answers: { [call: string]: Answer } = {}) {
  const { model, server } = await openModel(answers);
  await model.loadCatalog();
  return { form: new CreateForm(model), server };
}

const ONE = listOf(aTPU());

describe('CreateForm', () => {
  it('suggests what most want, in the usual zone', async () => {
    const { form } = await openForm();
    expect(form.fields).toMatchObject({
      name: 'my-tpu',
      type: 'v5litepod-8',
      zone: 'us-central1-a',
      version: 'v2-alpha-tpuv5-lite',
      connect: true
    });
  });

  it.each([
    ['', 'Enter a name.'],
    ['My-tpu', 'Start with a lower-case letter.'],
    ['9lives', 'Start with a lower-case letter.'],
    ['my_tpu', 'Use lower-case letters, digits and hyphens only.'],
    ['my-tpu-', 'End with a letter or a digit.'],
    ['a'.repeat(41), 'Use at most 40 characters, not 41.'],
    ['my-tpu', 'A TPU with this name already exists in us-central1-a.'],
    ['a', ''],
    ['a'.repeat(40), '']
  ])('says of the name %j: %j', async (name, problem) => {
    const { form } = await openForm(ONE);
    expect(form.fields.name).toBe('my-tpu-2'); // a name that is not taken
    form.set('name', name);
    expect(form.nameProblem()).toBe(problem);
    form.set('zone', 'us-west4-a');
    expect(form.nameProblem()).not.toContain('already exists');
  });

  it('lets a TPU stop when it is idle, and deletes one that can’t be stopped', async () => {
    const { form } = await openForm();
    const guard = { action: 'stop', idle: 7200, max_cost: null, until: '' };
    expect(form.request.guard).toBeUndefined();
    form.set('idle', 7200);
    expect(form.request.guard).toEqual(guard);
    form.set('tier', 'spot');
    expect(form.request.guard).toEqual({ ...guard, action: 'delete' });
    form.set('tier', 'on-demand');
    form.set('type', 'v4-32');
    expect(form.request.guard).toEqual({ ...guard, action: 'delete' });
    form.fill({ type: 'v5litepod-8', guard: { idle: 5400 } });
    expect(form.request.guard).toEqual({ ...guard, idle: 5400 });
  });

  it('suggests that an expensive TPU stops when it is idle, as the settings say', async () => {
    const { form } = await openForm(catalogWith({ emulated: false }));
    expect(form.request.guard).toMatchObject({ action: 'stop', idle: 7200 });
    form.defaults.settings = { idle: '3600' };
    expect(form.request.guard).toMatchObject({ action: 'stop', idle: 3600 });
    form.set('tier', 'spot'); // which can only be deleted, with its disk
    expect(form.request.guard).toBeUndefined();
    form.set('tier', 'on-demand');
    form.set('idle', null);
    expect(form.request.guard).toBeUndefined();
    form.fill({ type: 'v5litepod-8' }); // as it was created before
    expect(form.request.guard).toBeUndefined();
  });

  it('lets a TPU run a command, and stop at a cost or at a time', async () => {
    const { form } = await openForm();
    const until = new Date(2099, 11, 24, 8).toISOString();
    const request = {
      name: 'my-tpu',
      type: 'v5litepod-8',
      connect: { packages: [], then_run: 'python train.py' },
      guard: { action: 'delete' as const, idle: null, max_cost: 20, until }
    };
    form.fill(request);
    expect(form.request).toMatchObject(request);
    form.set('connect', false);
    expect(form.request.connect).toBeNull();
    form.reset();
    expect(form.request.connect).toEqual({ packages: [] });
    expect(form.request.guard).toBeUndefined();
  });

  it('hunts again for what is preempted, and then has no deadline', async () => {
    const { form } = await openForm();
    form.set('hunt', true);
    form.set('hours', '8');
    form.set('again', true);
    expect(form.huntRequest).toMatchObject({ again: false, queued: true });
    form.set('otherTiers', ['spot']);
    expect(form.huntRequest).toMatchObject({
      again: true,
      deadline: '',
      queued: false
    });
    const { huntRequest } = form;
    form.fill(huntRequest.tpu, { ...huntRequest, again: false });
    expect(form.huntRequest.again).toBe(false);
    form.fill(huntRequest.tpu, huntRequest);
    expect(form.huntRequest).toMatchObject({
      again: true,
      tiers: huntRequest.tiers
    });
  });

  it('offers the zones of the type and its image', async () => {
    const { form } = await openForm();
    form.set('zone', 'us-west4-a');
    form.set('version', 'edited');
    form.set('type', 'v4-32');
    expect(form.zones).toEqual(['us-central2-b']);
    expect(form.awayFromHome).toBe(true);
    expect(form.fields).toMatchObject({
      zone: 'us-central2-b',
      version: 'tpu-ubuntu2204-base'
    });
    form.set('version', '');
    expect(form.fields.version).toBe('');
  });

  it('begins in the nearest zone that has the type', async () => {
    const far = { ...catalog.types[0], name: 'v6e-8' };
    far.zones = ['asia-northeast1-b', 'us-central1-b', 'us-east1-d'];
    const { form } = await openForm(
      catalogWith({
        types: [...catalog.types, far],
        suggested_zones: { 'v6e-8': 'us-central1-b' }
      })
    );
    form.set('type', 'v6e-8');
    expect(form.awayFromHome).toBe(true);
    expect(form.fields.zone).toBe('us-central1-b');
    expect(form.nearestZone).toBe('us-central1-b');
  });

  it('lets the server choose the image that fits, unless one is entered', async () => {
    const { form } = await openForm();
    expect(form.fields.version).toBe('v2-alpha-tpuv5-lite');
    expect(form.request.version).toBeNull();
    form.set('version', 'mine');
    expect(form.request.version).toBe('mine');
    form.set('version', '');
    expect(form.request.version).toBeNull();
  });

  it('names the other form of a type where the zone offers it', async () => {
    const one = {
      ...catalog.types[0],
      name: 'v6e-8',
      zones: ['us-central1-a', 'us-west4-a'],
      other_form: 'v6e-2x4'
    };
    const two = {
      ...one,
      name: 'v6e-2x4',
      hosts: 2,
      zones: ['us-central1-a'],
      other_form: 'v6e-8'
    };
    const types = [...catalog.types, one, two];
    const { form } = await openForm(catalogWith({ types }));
    expect(form.otherForm).toBeUndefined();
    form.set('type', 'v6e-8');
    form.set('zone', 'us-central1-a');
    expect(form.otherForm?.name).toBe('v6e-2x4');
    form.set('zone', 'us-west4-a');
    expect(form.otherForm).toBeUndefined();
  });

  it('keeps the zone if the new type is there, and finds back to it', async () => {
    const everywhere = { ...catalog.types[0], name: 'v4-8' };
    everywhere.zones = ['us-central2-b', 'us-west4-a', 'us-central1-a'];
    const types = [...catalog.types, everywhere];
    const { form } = await openForm(catalogWith({ types }));
    form.set('type', 'v4-8');
    expect(form.fields.zone).toBe('us-central1-a');
    form.set('type', 'v5litepod-8');
    form.set('zone', 'us-west4-a');
    form.set('type', 'v4-32');
    expect(form.fields.zone).toBe('us-central2-b');
    form.set('type', 'v4-8');
    expect(form.fields.zone).toBe('us-west4-a');
  });

  it('starts with the last choices, and with what the settings say', async () => {
    const kept = new Map<string, string>();
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => void kept.set(key, value)
    };
    const { model } = await openModel({ 'POST tpus': [202, anOperation()] });
    await model.loadCatalog();
    const form = new CreateForm(model, new CreateDefaults(storage));
    form.set('zone', 'us-west4-a');
    form.set('tier', 'spot');
    await form.submit();
    const last = { type: 'v5litepod-8', zone: 'us-west4-a', tier: 'spot' };
    expect(form.fields).toMatchObject({ ...last, packages: [] });

    const defaults = new CreateDefaults(storage);
    const next = new CreateForm(model, defaults);
    expect(next.fields).toMatchObject(last);
    defaults.settings = {
      tier: 'on-demand',
      type: '',
      packages: 'flax, optax',
      apt: 'ffmpeg',
      timezone: 'Europe/Berlin',
      script: 'touch ~/ready'
    };
    expect(next.fields).toMatchObject({ ...last, tier: 'on-demand' });
    const setup = {
      apt: ['ffmpeg'],
      timezone: 'Europe/Berlin',
      script: 'touch ~/ready',
      oh_my_zsh: false
    };
    const connect = { packages: ['flax', 'optax'], setup };
    expect(next.request.connect).toEqual(connect);
    next.set('packages', []);
    next.set('apt', []);
    next.set('tier', 'spot');
    expect(next.request).toMatchObject({
      tier: 'spot',
      connect: { packages: [], setup: { ...setup, apt: [] } }
    });
    next.fill({ ...next.request, connect: {} });
    expect(next.request.connect).toEqual({ packages: [] });
  });

  it.each([
    ['us-central1-a', 'on-demand', 9.6, 'us-central1'],
    ['us-west4-a', 'spot', 4.08, 'us-west4'],
    ['mars-north1-a', 'on-demand', null, '']
  ] as const)(
    'knows what the type costs in %s, %s: %s',
    async (zone, tier, price, region) => {
      const { form } = await openForm(catalogWith({ emulated: false }));
      form.set('zone', zone);
      form.set('tier', tier);
      expect(form.cost).toMatchObject({
        usd_per_hour: price,
        list_usd_per_hour: price,
        region
      });
    }
  );

  it('knows that an emulated TPU costs nothing, and what a real one would', async () => {
    const { form } = await openForm();
    expect(form.cost).toMatchObject({
      usd_per_hour: 0,
      list_usd_per_hour: 9.6
    });
    form.set('type', 'v4-32');
    form.set('tier', 'spot');
    expect(form.cost.list_usd_per_hour).toBeNull(); // not made up
  });

  it('asks for what was filled in and is empty afterwards', async () => {
    const { form, server } = await openForm({
      'POST tpus': [202, anOperation({ kind: 'create', tpu: 'mine' })]
    });
    form.set('name', 'mine');
    form.set('tier', 'spot');
    form.set('packages', ['flax', 'optax']);
    expect(await form.submit()).toMatchObject({ id: 'o1' });
    expect(server.posts).toEqual([
      {
        name: 'mine',
        type: 'v5litepod-8',
        zone: 'us-central1-a',
        version: null,
        tier: 'spot',
        network: null,
        subnetwork: null,
        connect: { packages: ['flax', 'optax'] }
      }
    ]);
    expect(form.fields.name).toBe('my-tpu');
  });

  it('asks for the time that a flex-start TPU runs, of no other', async () => {
    const { form } = await openForm();
    form.set('run_for', 28_800);
    expect(form.request.run_for).toBeUndefined();
    form.set('tier', 'flex-start');
    expect(form.request).toMatchObject({ tier: 'flex-start', run_for: 28800 });
    form.set('tier', 'spot');
    form.set('otherTiers', ['flex-start']);
    expect(form.limited).toBe(false);
    form.set('hunt', true);
    expect(form.huntRequest).toMatchObject({
      tpu: { tier: 'spot', run_for: 28800 },
      tiers: ['spot', 'flex-start']
    });
    form.fill({ tier: 'flex-start', run_for: 5400 });
    expect(form.runChoices).toContain(5400);
    expect(form.fields.run_for).toBe(5400);
  });

  it('keeps all input when the server refuses, and says why', async () => {
    const { form } = await openForm({ 'POST tpus': refused('No such image.') });
    form.set('name', 'mine');
    form.set('version', 'nope');
    form.set('connect', false);
    const before = form.fields;
    expect(await form.submit()).toBeNull();
    expect(form.failure?.message).toBe('No such image.');
    expect(form.fields).toEqual(before);
    expect(form.submitting).toBe(false);
  });

  it('is filled from an earlier wish for another try', async () => {
    const { form } = await openForm();
    const request = {
      name: 'again',
      type: 'v4-32',
      zone: 'us-central2-b',
      version: 'v',
      tier: 'spot' as const,
      network: 'n',
      subnetwork: null,
      connect: null
    };
    form.fill(request);
    expect(form.request).toEqual(request);
    const setup = {
      apt: ['ffmpeg'],
      timezone: 'UTC',
      oh_my_zsh: true,
      script: 'echo 1\n'
    };
    const connected = { ...request, connect: { packages: ['flax'], setup } };
    form.fill(connected);
    expect(form.request).toEqual(connected);
    const options = {
      topology: '2x2x4',
      description: '',
      internal_ips: true,
      service_account: 'me@p.iam.gserviceaccount.com',
      scopes: ['cloud-platform'],
      data_disks: [{ source: 'data', mode: 'read-only' as const }],
      tags: ['a', 'b'],
      metadata: { key: 'value' },
      startup_script: 'echo 2\n',
      secure_boot: true
    };
    const special = { ...request, options, labels: { team: 'vision' } };
    form.fill(special);
    expect(form.request).toEqual(special);
    form.reset();
    expect(form.request.options).toBeUndefined();
  });
});

// Creating a TPU, or hunting for one: type, zone and price, and the question before money.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { nameProblem } from '../../../labextension/src/model/names';
import { tierLabel } from '../../../labextension/src/model/tpuLabels';
import {
  catalogCost,
  hourlyCost,
  priceText
} from '../../../labextension/src/money/costLabels';
import {
  agreedPrice,
  createQuestion,
  huntQuestion
} from '../../../labextension/src/money/questionLabels';
import {
  IAcceleratorType,
  ICatalog,
  ICreateTPU,
  IHuntCandidate,
  IQuote
} from '../../../labextension/src/rest/api';
import { Failure } from '../../../labextension/src/rest/failure';
import { ask, Commands, must } from './context';

type Tier = 'on-demand' | 'spot';
const TIERS: Tier[] = ['on-demand', 'spot'];

export async function createTPU(commands: Commands): Promise<void> {
  const { client, sync } = await commands.connection();
  const catalog = await loadCatalog(commands);
  const type = await pickType(catalog);
  const zone = await pickZone(catalog, type);
  const tier = await pickTier(catalog, type, zone);
  const name = await enterName(commands);
  const request: ICreateTPU = {
    name,
    type: type.name,
    zone,
    tier,
    connect: {}
  };
  const quote = await client.quote(request);
  if (quote.question) {
    await ask(createQuestion(quote), ...quoteLines(quote));
  }
  sync.putOperation(
    await client.create({
      ...request,
      confirm_price: !!quote.question,
      max_price: quote.cost.usd_per_hour
    })
  );
}

export async function startHunt(commands: Commands): Promise<void> {
  const { client, resources, sync } = await commands.connection();
  const catalog = await loadCatalog(commands);
  const type = await pickType(catalog);
  const zones = await pickZones(catalog, type);
  const tiers = await pickTiers();
  const name = await enterName(commands);
  const tpu: ICreateTPU = {
    name,
    type: type.name,
    zone: zones[0],
    tier: tiers[0],
    connect: {}
  };
  const request = { tpu, zones, types: [type.name], tiers };
  const all = await client.hunts.quote(request);
  const candidates = all.filter(one => !one.ruled_out);
  if (!candidates.length) {
    const problem = all[0]?.problem;
    throw problem
      ? Failure.of(problem)
      : new Error(trans.__('Nothing of this can be created.'));
  }
  if (candidates.some(one => one.cost.usd_per_hour !== 0)) {
    const question = huntQuestion(name);
    await ask(question, question.first, ...candidates.map(candidateLine));
  }
  const hunt = await client.hunts.start({
    ...request,
    tpu: { ...tpu, ...agreedPrice(candidates) }
  });
  resources.hunts.set(hunt.id, hunt);
  sync.putOperation(await client.operations.get(hunt.id));
}

export async function loadCatalog(commands: Commands): Promise<ICatalog> {
  const { client } = await commands.connection();
  const catalog = await client.catalog();
  if (!catalog.types.length && catalog.problem) {
    throw Failure.of(catalog.problem);
  }
  return catalog;
}

export async function pickType(catalog: ICatalog): Promise<IAcceleratorType> {
  const picked = await vscode.window.showQuickPick(
    catalog.types.map(type => {
      const zone = catalog.suggested_zones[type.name] ?? type.zones[0] ?? '';
      const cost = catalogCost(type, zone, 'on-demand', catalog.emulated);
      return {
        label: type.name,
        description: type.meaning,
        detail: catalog.emulated
          ? trans.__('emulated: free')
          : hourlyCost(cost),
        type
      };
    }),
    {
      title: trans.__('TPU Type'),
      matchOnDescription: true,
      placeHolder: trans.__('Type')
    }
  );
  return must(picked).type;
}

/** The suggested zone first, each with the price of the type there. */
function zoneItems(catalog: ICatalog, type: IAcceleratorType) {
  const first = catalog.suggested_zones[type.name];
  return [...type.zones]
    .sort(
      (a, b) => Number(b === first) - Number(a === first) || a.localeCompare(b)
    )
    .map(zone => ({
      label: zone,
      description: catalog.emulated
        ? trans.__('emulated: free')
        : hourlyCost(catalogCost(type, zone, 'on-demand', false)),
      picked: zone === first
    }));
}

export async function pickZone(
  catalog: ICatalog,
  type: IAcceleratorType
): Promise<string> {
  const picked = await vscode.window.showQuickPick(zoneItems(catalog, type), {
    title: trans.__('Zone for %1', type.name),
    placeHolder: trans.__('Zone')
  });
  return must(picked).label;
}

async function pickZones(
  catalog: ICatalog,
  type: IAcceleratorType
): Promise<string[]> {
  const picked = must(
    await vscode.window.showQuickPick(zoneItems(catalog, type), {
      title: trans.__('Zones for %1', type.name),
      placeHolder: trans.__('Zones to try, in turn'),
      canPickMany: true
    })
  );
  return must(picked.length ? picked : undefined).map(one => one.label);
}

export async function pickTier(
  catalog: ICatalog,
  type: IAcceleratorType,
  zone: string
): Promise<Tier> {
  const picked = await vscode.window.showQuickPick(
    TIERS.map(tier => ({
      label: tierLabel(tier),
      description: catalog.emulated
        ? trans.__('emulated: free')
        : hourlyCost(catalogCost(type, zone, tier, false)),
      detail:
        tier === 'spot'
          ? trans.__('Google can preempt it at any time.')
          : undefined,
      tier
    })),
    {
      title: `${type.name} · ${zone}`,
      placeHolder: trans.__('On demand or Spot')
    }
  );
  return must(picked).tier;
}

async function pickTiers(): Promise<Tier[]> {
  const both = { label: trans.__('On demand or Spot'), tiers: TIERS };
  const picked = await vscode.window.showQuickPick(
    [...TIERS.map(tier => ({ label: tierLabel(tier), tiers: [tier] })), both],
    { title: trans.__('Hunt'), placeHolder: trans.__('On demand or Spot') }
  );
  return must(picked).tiers;
}

async function enterName(commands: Commands): Promise<string> {
  const { resources } = await commands.connection();
  const taken = new Set(resources.tpus.map(tpu => tpu.name));
  let free = 'my-tpu';
  for (let number = 2; taken.has(free); number += 1) {
    free = `my-tpu-${number}`;
  }
  return must(
    await vscode.window.showInputBox({
      title: trans.__('Name of the TPU'),
      value: free,
      validateInput: value => nameProblem(value) || undefined
    })
  );
}

/** What a quote is for, and what that costs. */
export function quoteLines({
  cost,
  meaning,
  type,
  uncovered,
  warning,
  zone
}: IQuote): string[] {
  return [
    `${type} · ${zone}`,
    meaning,
    priceText(cost),
    uncovered,
    warning
  ].filter(Boolean);
}

function candidateLine({ cost, tier, type, zone }: IHuntCandidate): string {
  return trans.__(
    '%1: %2',
    `${type} · ${zone} · ${tierLabel(tier)}`,
    priceText(cost)
  );
}

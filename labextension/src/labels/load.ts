// Memory and load of chips in words.

import { TranslationBundle } from '@jupyterlab/translation';

import { IChipLoad, IHostLoad, ILoadSample } from '../api';

/** Of several chips: the sum of their memory, and the mean of their duty cycles. */
export function together(chips: IChipLoad[]): IChipLoad {
  const duty = chips
    .map(chip => chip.duty_cycle)
    .filter(value => value !== null);
  const sum = (values: (number | null)[]) =>
    values.some(value => value === null)
      ? null
      : values.reduce<number>((all, value) => all + value!, 0);
  return {
    memory_used: sum(chips.map(chip => chip.memory_used)),
    memory_total: sum(chips.map(chip => chip.memory_total)),
    duty_cycle: duty.length ? sum(duty)! / duty.length : null
  };
}

/** The part of the memory in use, in percent; null where it is not known. */
export function memoryPercent(chip: IChipLoad): number | null {
  const { memory_used: used, memory_total: total } = chip;
  return used !== null && total ? (100 * used) / total : null;
}

/** "4.0 of 16.0 GiB"; "" where it is not known. */
export function memoryLabel(chip: IChipLoad, trans: TranslationBundle): string {
  const { memory_used: used, memory_total: total } = chip;
  return used !== null && total
    ? trans.__('%1 of %2 GiB', gib(used), gib(total))
    : '';
}

/** "4.0 GiB"; "" where it is not known. */
export function usedLabel(chip: IChipLoad, trans: TranslationBundle): string {
  return chip.memory_used === null
    ? ''
    : trans.__('%1 GiB', gib(chip.memory_used));
}

/** "57 %"; "" where it is not known. */
export function dutyLabel(chip: IChipLoad, trans: TranslationBundle): string {
  return chip.duty_cycle === null
    ? ''
    : trans.__('%1 %', Math.round(chip.duty_cycle));
}

/** The latest sample, if it has figures. */
export function latest(host: IHostLoad): ILoadSample | null {
  const last = host.samples[host.samples.length - 1];
  return last?.state === 'ok' ? last : null;
}

/** What the figures of a host do not say. */
export function loadNotes(host: IHostLoad, trans: TranslationBundle): string[] {
  return [
    ...(host.problem ? [`${host.problem.message} ${host.problem.hint}`] : []),
    ...(host.message ? [host.message] : []),
    ...host.errors.map(error => trans.__('libtpu reports an error: %1', error))
  ];
}

function gib(count: number): string {
  return (count / 2 ** 30).toFixed(1);
}

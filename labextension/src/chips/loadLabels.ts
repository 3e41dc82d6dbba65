// Memory and load of chips in words.

import { PathExt } from '@jupyterlab/coreutils';

import { chipsLabel } from '../kernels/kernelLabels';
import { problemLine } from '../language/text';
import { trans } from '../language/translation';
import { IChipLoad, IHostLoad, ILoadSample, ITPULoad } from '../rest/api';

/** The load of several chips: the sum of their memory, and the mean of their duty cycles. */
export function together(chips: IChipLoad[]): IChipLoad {
  // Chips that no kernel uses have none, where others have one each.
  const known = (key: keyof IChipLoad) =>
    chips.map(chip => chip[key]).filter(value => value !== null);
  const sum = (key: keyof IChipLoad) =>
    known(key).length ? known(key).reduce((all, value) => all + value) : null;
  const duty = sum('duty_cycle');
  return {
    memory_used: sum('memory_used'),
    memory_total: sum('memory_total'),
    duty_cycle: duty === null ? null : duty / known('duty_cycle').length
  };
}

/** The part of the memory in use, in percent; null where it is not known. */
export function memoryPercent(chip: IChipLoad): number | null {
  const { memory_used: used, memory_total: total } = chip;
  return used !== null && total ? (100 * used) / total : null;
}

/** "4.0 of 16.0 GiB"; "" where it is not known. */
export function memoryLabel(chip: IChipLoad): string {
  const { memory_used: used, memory_total: total } = chip;
  return used !== null && total
    ? trans.__('%1 of %2 GiB', gib(used), gib(total))
    : '';
}

/** "4.0 GiB"; "" where it is not known. */
export function usedLabel(chip: IChipLoad): string {
  return chip.memory_used === null
    ? ''
    : trans.__('%1 GiB', gib(chip.memory_used));
}

/** Whether no chip of any host is in use. */
export function isIdle(load: ITPULoad | null | undefined): boolean {
  const hosts = load?.hosts ?? [];
  return (
    hosts.length > 0 &&
    hosts.every(({ samples }) => samples[samples.length - 1]?.state === 'idle')
  );
}

/** "57 %"; "" where it is not known. */
export function dutyLabel(chip: IChipLoad): string {
  return chip.duty_cycle === null
    ? ''
    : trans.__('%1 %', Math.round(chip.duty_cycle));
}

/** The latest sample, if it has figures. */
export function latest(host: IHostLoad): ILoadSample | null {
  const last = host.samples[host.samples.length - 1];
  return last?.state === 'ok' ? last : null;
}

/** Whose its chips are, and what the figures of a host do not say. */
export function loadNotes(host: IHostLoad): string[] {
  return [
    ...host.bookings.map(booking =>
      trans.__(
        '%1: %2',
        chipsLabel(booking.chips),
        PathExt.basename(booking.notebook) || booking.kernel.slice(0, 8)
      )
    ),
    ...(host.problem ? [problemLine(host.problem)] : []),
    ...(host.message ? [host.message] : []),
    ...host.errors.map(error => trans.__('libtpu reports an error: %1', error))
  ];
}

function gib(count: number): string {
  return (count / 2 ** 30).toFixed(1);
}

// When a TPU stops or deletes itself, as fields of forms and dialogs.

import { IGuard, ISetGuard } from '../rest/api';

/** What is typed: seconds, USD, and a time of this computer; "" for no limit. */
export interface IGuardFields {
  idle: string;
  cost: string;
  until: string;
  action: 'delete' | 'stop';
}

/** What the fields show of *guard*. */
export function guardFields(guard?: IGuard | ISetGuard | null): IGuardFields {
  return {
    idle: String(guard?.idle ?? ''),
    cost: String(guard?.max_cost ?? ''),
    until: guard?.until ? localTime(guard.until) : '',
    action: guard?.action ?? 'stop'
  };
}

/** The limits as the server wants them; null without any. deletes: whether the TPU can't be stopped. */
export function guardOf(
  { action, cost, idle, until }: IGuardFields,
  deletes: boolean,
  notice?: number
): ISetGuard | null {
  if (!idle && !cost && !until) {
    return null;
  }
  return {
    action: deletes ? 'delete' : action,
    idle: idle ? Number(idle) : null,
    max_cost: cost ? Number(cost) : null,
    until: until ? new Date(until).toISOString() : '',
    ...(notice === undefined ? {} : { notice })
  };
}

/** A time as a field for dates and times has it. */
function localTime(time: string): string {
  const date = new Date(time);
  const local = date.getTime() - date.getTimezoneOffset() * 60_000;
  return new Date(local).toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length);
}

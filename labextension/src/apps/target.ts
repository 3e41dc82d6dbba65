// What a tab with a page of a host shows: enough to open it anew, and no address or secret.

import { ReadonlyJSONObject } from '@lumino/coreutils';

import { IApp } from '../api';
import { TPURef } from '../model/client';

/** A port of a host, or a folder of logs, for TensorBoard. */
export interface IAppTarget extends ReadonlyJSONObject {
  /** `zone/name` */
  readonly tpu: string;
  readonly host: number;
  /** 0 for a TensorBoard, whose port is its own business. */
  readonly port: number;
  readonly path: string;
  readonly name: string;
  /** "" for a port. */
  readonly logdir: string;
}

export function portTarget(
  tpu: TPURef,
  port: number,
  host = 0,
  path = '/',
  name = ''
): IAppTarget {
  const key = `${tpu.zone}/${tpu.name}`;
  return { tpu: key, host, port, path, name, logdir: '' };
}

export function tensorBoardTarget(
  tpu: TPURef,
  logdir: string,
  host = 0
): IAppTarget {
  const key = `${tpu.zone}/${tpu.name}`;
  const name = 'TensorBoard';
  return { tpu: key, host, port: 0, path: '/', name, logdir };
}

/** Where an app that is open was found. */
export function targetOf(app: IApp): IAppTarget {
  const tpu = { name: app.tpu, zone: app.zone };
  return app.kind === 'tensorboard'
    ? tensorBoardTarget(tpu, app.logdir, app.host)
    : portTarget(tpu, app.port, app.host, app.path, app.name);
}

/** Two tabs with the same key would show the same. */
export function targetKey(place: IAppTarget): string {
  const what = place.logdir || `${place.port}${place.path}`;
  return `${place.tpu} ${place.host} ${what}`;
}

export function tpuOf(place: IAppTarget): TPURef {
  const [zone, name] = place.tpu.split('/');
  return { zone, name };
}

/** Whether a browser at *hostname* runs on the machine that the server runs on, as far as can be told. */
export function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(\.\d{1,3}){3}$/.test(hostname)
  );
}

/** "6006" or "6006:7007": a port of the host, and one of this machine; null for anything else. */
export function parsePorts(
  text: string
): { port: number; local?: number } | null {
  const found = /^\s*(\d{1,5})(?:\s*:\s*(\d{1,5}))?\s*$/.exec(text);
  if (!found) {
    return null;
  }
  const port = Number(found[1]);
  const local = found[2] === undefined ? undefined : Number(found[2]);
  const all = local === undefined ? [port] : [port, local];
  return all.every(one => one >= 1 && one <= 65535) ? { port, local } : null;
}

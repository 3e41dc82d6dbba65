// What a tab with a page of a host shows: enough to open it anew, and no address or secret.

import { ReadonlyJSONObject } from '@lumino/coreutils';

import { IApp } from '../api';
import { TPURef } from '../model/client';

/** A port of a host, or a folder of logs, for TensorBoard. */
export interface IPlace extends ReadonlyJSONObject {
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

export function portPlace(
  tpu: TPURef,
  port: number,
  host = 0,
  path = '/',
  name = ''
): IPlace {
  const key = `${tpu.zone}/${tpu.name}`;
  return { tpu: key, host, port, path, name, logdir: '' };
}

export function boardPlace(tpu: TPURef, logdir: string, host = 0): IPlace {
  const key = `${tpu.zone}/${tpu.name}`;
  const name = 'TensorBoard';
  return { tpu: key, host, port: 0, path: '/', name, logdir };
}

/** Where an app that is open was found. */
export function placeOf(app: IApp): IPlace {
  const tpu = { name: app.tpu, zone: app.zone };
  return app.kind === 'tensorboard'
    ? boardPlace(tpu, app.logdir, app.host)
    : portPlace(tpu, app.port, app.host, app.path, app.name);
}

/** Two tabs with the same key would show the same. */
export function keyOfPlace(place: IPlace): string {
  const what = place.logdir || `${place.port}${place.path}`;
  return `${place.tpu} ${place.host} ${what}`;
}

export function refOf(place: IPlace): TPURef {
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
export function portsOf(text: string): { port: number; local?: number } | null {
  const found = /^\s*(\d{1,5})(?:\s*:\s*(\d{1,5}))?\s*$/.exec(text);
  if (!found) {
    return null;
  }
  const port = Number(found[1]);
  const local = found[2] === undefined ? undefined : Number(found[2]);
  const all = local === undefined ? [port] : [port, local];
  return all.every(one => one >= 1 && one <= 65535) ? { port, local } : null;
}

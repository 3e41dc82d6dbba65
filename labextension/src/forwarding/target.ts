// What an app tab shows: enough to open it again, without an address or a secret.

import { ReadonlyJSONObject } from '@lumino/coreutils';

import { TPURef } from '../model/resources';
import { IApp } from '../rest/api';

/** A port of a host, or a log folder for TensorBoard. */
export interface IAppTarget extends ReadonlyJSONObject {
  /** `zone/name` */
  readonly tpu: string;
  readonly host: number;
  /** 0 for TensorBoard and for Ray, which choose their ports. */
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
  name: string,
  host = 0
): IAppTarget {
  const key = `${tpu.zone}/${tpu.name}`;
  return { tpu: key, host, port: 0, path: '/', name, logdir };
}

/** The dashboard of a TPU's Ray cluster. */
export function rayTarget(tpu: TPURef, name: string): IAppTarget {
  return portTarget(tpu, 0, 0, '/', name);
}

/** The target of an open app. */
export function targetOf(app: IApp): IAppTarget {
  const tpu = { name: app.tpu, zone: app.zone };
  if (app.kind === 'ray') {
    return rayTarget(tpu, app.name);
  }
  return app.kind === 'tensorboard'
    ? tensorBoardTarget(tpu, app.logdir, app.name, app.host)
    : portTarget(tpu, app.port, app.host, app.path, app.name);
}

/** The same for two targets that show the same. */
export function targetKey(target: IAppTarget): string {
  const what = target.logdir || `${target.port}${target.path}`;
  return `${target.tpu} ${target.host} ${what}`;
}

export function tpuOf(target: IAppTarget): TPURef {
  const [zone, name] = target.tpu.split('/');
  return { zone, name };
}

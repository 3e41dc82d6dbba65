// What an app tab shows: enough to open it again, without an address or a secret.

import { ReadonlyJSONObject } from '@lumino/coreutils';

import { IApp } from '../rest/api';
import { keyOf, TPURef } from '../rest/tpuRef';

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

/** The target with a name on a TPU; without more: the dashboard of its Ray cluster. */
export function targetOn(
  tpu: TPURef,
  name: string,
  more: Partial<Pick<IAppTarget, 'host' | 'logdir' | 'path' | 'port'>> = {}
): IAppTarget {
  const dashboard = { host: 0, port: 0, path: '/', logdir: '' };
  return { tpu: keyOf(tpu), name, ...dashboard, ...more };
}

/** The target of an open app. */
export function targetOf(app: IApp): IAppTarget {
  const { host, kind, logdir, name, path, port } = app;
  const more = {
    port: { host, port, path },
    ray: {},
    tensorboard: { host, logdir }
  }[kind];
  return targetOn({ name: app.tpu, zone: app.zone }, name, more);
}

/** The same for two targets that show the same. */
export function targetKey(target: IAppTarget): string {
  const what = target.logdir || `${target.port}${target.path}`;
  return `${target.tpu} ${target.host} ${what}`;
}

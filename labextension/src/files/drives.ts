// The drives that are known to JupyterLab. They are remembered, so that documents on them can be
// opened again when the page is loaded: the list of TPUs comes later.

import { Contents, ServerConnection } from '@jupyterlab/services';

import { keyOf } from '../rest/tpuRef';
import { KeyValueStorage, Stored } from '../state/stored';
import { driveName, HostDrive, IHostRef } from './hostDrive';

export class Drives {
  constructor(
    private _contents: Contents.IManager,
    private _settings: ServerConnection.ISettings,
    storage: KeyValueStorage
  ) {
    this._stored = new Stored(
      storage,
      `jupyter-tpu:drives:${_settings.baseUrl}`
    );
    const places = this._stored.load();
    for (const place of Array.isArray(places) ? places : []) {
      this._add(place as IHostRef);
    }
  }

  /** The drive of a host; the same one each time. */
  of(place: IHostRef): HostDrive {
    const known = this._drives.get(this._id(place));
    if (known) {
      return known;
    }
    const drive = this._add(place);
    this._stored.save([...this._drives.values()].map(one => one.place));
    return drive;
  }

  private _add({ name, zone, host }: IHostRef): HostDrive {
    const place = { name, zone, host };
    const taken = [...this._drives.values()].some(
      drive => drive.name === driveName(place)
    );
    const own = taken ? `${zone}~${driveName(place)}` : driveName(place);
    const drive = new HostDrive(place, this._settings, own);
    this._drives.set(this._id(place), drive);
    this._contents.addDrive(drive);
    return drive;
  }

  private _id(place: IHostRef): string {
    return `${keyOf(place)} ${place.host}`;
  }

  private _drives = new Map<string, HostDrive>();
  private _stored: Stored;
}

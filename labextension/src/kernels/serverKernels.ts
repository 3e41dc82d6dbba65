// The kernels that this Jupyter server has.

import { ServiceManager } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { Store } from '../store';

/** As much of them as the panel needs. */
export interface IServerKernels extends Store {
  has(id: string): boolean;
  /** Shuts down those of the kernels, the way that tells their notebooks; gives their ids. */
  shutDown(ids: string[]): Promise<string[]>;
  /** A kernel has come: opens the notebook that it has here, if it has one. */
  show(id: string): Promise<void>;
}

export class ServerKernels extends Store implements IServerKernels {
  constructor(
    private _services: ServiceManager.IManager,
    private _commands: CommandRegistry
  ) {
    super();
    _services.kernels.runningChanged.connect(() => this.changed());
  }

  has(id: string): boolean {
    return [...this._services.kernels.running()].some(one => one.id === id);
  }

  async shutDown(ids: string[]): Promise<string[]> {
    const { sessions } = this._services;
    const ended: string[] = [];
    for (const { id, kernel } of [...sessions.running()]) {
      if (kernel && ids.includes(kernel.id)) {
        try {
          await sessions.shutdown(id);
          ended.push(kernel.id);
        } catch (reason) {
          // It is ended with the others, at the other end.
          console.warn(`Session ${id} was not shut down`, reason);
        }
      }
    }
    return ended;
  }

  async show(id: string): Promise<void> {
    const { kernels, sessions } = this._services;
    await Promise.all([kernels.refreshRunning(), sessions.refreshRunning()]);
    const found = [...sessions.running()].find(one => one.kernel?.id === id);
    if (found) {
      await this._commands.execute('docmanager:open', { path: found.path });
    }
  }
}

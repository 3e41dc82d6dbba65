// The kernels of this Jupyter server.

import { ServiceManager } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { Store } from '../ui/store';

/** What the panel needs of them. */
export interface IServerKernels extends Store {
  has(id: string): boolean;
  /** Shuts down those of the kernels that have a session, so that their notebooks notice; returns their ids. */
  shutDown(ids: string[]): Promise<string[]>;
  /** Opens the notebook of a kernel that was taken over, if it is on this server. */
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
          // It is shut down with the others, on its host.
          console.warn(`Session ${id} was not shut down`, reason);
        }
      }
    }
    return ended;
  }

  async show(id: string): Promise<void> {
    const { kernels, sessions } = this._services;
    await Promise.all([kernels.refreshRunning(), sessions.refreshRunning()]);
    const session = [...sessions.running()].find(one => one.kernel?.id === id);
    if (session) {
      await this._commands.execute('docmanager:open', { path: session.path });
    }
  }
}

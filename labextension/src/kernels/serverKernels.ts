// The kernels of this Jupyter server.

import { ServiceManager } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { Store } from '../state/observable';
import { openDocument } from './kernelWidget';

/** What the panel needs of them. */
export type IServerKernels = Store &
  Pick<ServerKernels, 'has' | 'show' | 'shutDown'>;

export class ServerKernels extends Store {
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

  /** Shuts a kernel down that has a session, so that its notebook notices; whether it has one. */
  async shutDown(kernel: string): Promise<boolean> {
    const session = this._sessionOf(kernel);
    if (session) {
      try {
        await this._services.sessions.shutdown(session.id);
        return true;
      } catch (reason) {
        // It is shut down on its host.
        console.warn(`Session ${session.id} was not shut down`, reason);
      }
    }
    return false;
  }

  /** Opens the notebook of a kernel that was taken over, if it is on this server. */
  async show(kernel: string): Promise<void> {
    const { kernels, sessions } = this._services;
    await Promise.all([kernels.refreshRunning(), sessions.refreshRunning()]);
    const session = this._sessionOf(kernel);
    if (session) {
      await openDocument(this._commands, session.path);
    }
  }

  private _sessionOf(id: string) {
    const sessions = [...this._services.sessions.running()];
    return sessions.find(({ kernel }) => kernel?.id === id);
  }
}

// Shows output widgets what a followed request prints into them; outputWidgets.ts says why this page
// does it. A part of the socket, which asks it about each message.

import { channelOf, parentOf, typeOf, widgetUpdate } from './frames';
import { noteStates } from './outputWidgets';
import { Position } from './replay';

/** Milliseconds after which output widgets are shown what is redirected to them. */
const DELAY = 100;

/** What one kernel connection redirects to output widgets. */
export class Redirection {
  /**
   * @param _position - of the connection; it has the outputs and what is redirected
   * @param _clientId - of the connection
   * @param _handOn - gives JupyterLab a message
   * @param _send - sends the kernel a message
   */
  constructor(
    private _position: Position,
    private _clientId: string,
    private _handOn: (data: ArrayBuffer) => void,
    private _send: (data: ArrayBuffer) => void
  ) {}

  /** Whether a message of a request is for output widgets. They are shown it a little later. */
  takes(request: string, frame: ArrayBuffer): boolean {
    const redirected = this._position.redirected.get(request);
    if (!redirected || channelOf(frame) !== 'iopub') {
      if (redirected && channelOf(frame) === 'shell') {
        redirected.ended = true;
        this._show(frame);
      }
      return false;
    }
    const taken = redirected.take(frame);
    if (taken) {
      this._showLater(frame);
    }
    return taken;
  }

  /** Notes what a message says of widgets. The kernel may know less of them than this page. */
  track(frame: ArrayBuffer): void {
    const { redirected, widgets } = this._position;
    const type =
      redirected.size > 0 && channelOf(frame) === 'iopub' ? typeOf(frame) : '';
    if (type === 'execute_input') {
      [...redirected.keys()]
        .filter(request => request !== parentOf(frame))
        .forEach(request => redirected.delete(request));
    } else if (type === 'comm_msg') {
      const isNew = noteStates(frame, widgets);
      for (const output of redirected.values()) {
        if (output.showAgain(isNew ? null : frame)) {
          this._showLater(frame);
        }
      }
    }
  }

  /** The connection has ended: nothing is shown any more. */
  end(): void {
    clearTimeout(this._timer);
  }

  private _showLater(frame: ArrayBuffer): void {
    this._timer ??= setTimeout(() => {
      this._timer = undefined;
      this._show(frame);
    }, DELAY);
  }

  private _show(frame: ArrayBuffer): void {
    for (const redirected of this._position.redirected.values()) {
      for (const { comm, outputs, tell } of redirected.takeChanged()) {
        this._handOn(widgetUpdate(frame, comm, { outputs }));
        if (tell) {
          this._send(widgetUpdate(frame, comm, { outputs }, this._clientId));
        }
      }
    }
  }

  private _timer?: ReturnType<typeof setTimeout>;
}

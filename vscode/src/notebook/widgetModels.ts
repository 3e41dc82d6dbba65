// What a kernel's widgets are now: a page that shows them can come at any time.

import { ICommMessage, WIDGET_TARGET } from '../../widgets/src/protocol';

type State = Record<string, unknown>;
type Path = (string | number)[];

interface IModel {
  /** With the state as it is now. */
  open: ICommMessage;
  state: State;
  /** Its binary parts in base64, by their paths as JSON. */
  buffers: Map<string, string>;
  /** Its own messages that no page has got. */
  custom: ICommMessage[];
}

/** Messages of a widget's own that wait for a page. */
const MOST_CUSTOM = 1000;

export class WidgetModels {
  has(comm: string): boolean {
    return this._models.has(comm);
  }

  get ids(): string[] {
    return [...this._models.keys()];
  }

  state(comm: string): State | undefined {
    return this._models.get(comm)?.state;
  }

  /** Takes a message of the kernel or of a page; *isShown*: some page gets it. */
  apply(message: ICommMessage, isShown = true): void {
    const { buffers, content, type } = message;
    const { comm_id, data = {}, target_name } = content;
    if (type === 'comm_open' && target_name === WIDGET_TARGET) {
      const model = { state: {}, buffers: new Map(), custom: [] };
      this._models.set(comm_id, { ...model, open: message });
      this._update(comm_id, data.state, data.buffer_paths, buffers);
    } else if (type === 'comm_close') {
      this._models.delete(comm_id);
    } else if (data.method === 'update' || data.method === 'echo_update') {
      this._update(comm_id, data.state, data.buffer_paths, buffers);
    } else if (data.method === 'custom' && !isShown) {
      const custom = this._models.get(comm_id)?.custom;
      custom?.push(message);
      custom?.splice(0, custom.length - MOST_CUSTOM);
    }
  }

  /** All of them, for a page that knows none. */
  messages(): ICommMessage[] {
    const models = [...this._models.values()];
    return [
      ...models.map(({ buffers, open, state }) => {
        const paths = [...buffers.keys()].map(path => JSON.parse(path));
        const data = { ...open.content.data, state, buffer_paths: paths };
        const content = { ...open.content, data };
        return { ...open, content, buffers: [...buffers.values()] };
      }),
      ...models.flatMap(({ custom }) => custom.splice(0))
    ];
  }

  /** What changes, if the kernel says that it has these states: `update_states` of the control comm. */
  messagesOf({ buffers, content, id }: ICommMessage): ICommMessage[] {
    const { buffer_paths = [], states } = content.data as {
      buffer_paths?: Path[];
      states: { [comm: string]: { state: State } };
    };
    return Object.entries(states).map(([comm_id, { state }]) => {
      const own = buffer_paths.flatMap(([comm, , ...path], index) =>
        comm === comm_id ? [{ path, buffer: buffers[index] }] : []
      );
      const data = { state, buffer_paths: own.map(one => one.path) };
      const isKnown = this._models.has(comm_id);
      return {
        type: isKnown ? 'comm_msg' : 'comm_open',
        id: `${id}-${comm_id}`,
        content: isKnown
          ? { comm_id, data: { ...data, method: 'update' } }
          : { comm_id, data, target_name: WIDGET_TARGET },
        metadata: { version: '2.0.0' },
        buffers: own.map(one => one.buffer)
      };
    });
  }

  clear(): void {
    this._models.clear();
  }

  private _update(
    comm: string,
    state: State = {},
    paths: Path[] = [],
    buffers: string[] = []
  ): void {
    const model = this._models.get(comm);
    if (model) {
      Object.assign(model.state, state);
      for (const path of model.buffers.keys()) {
        if (JSON.parse(path)[0] in state) {
          model.buffers.delete(path);
        }
      }
      for (const [index, path] of paths.entries()) {
        model.buffers.set(JSON.stringify(path), buffers[index]);
      }
    }
  }

  private _models = new Map<string, IModel>();
}

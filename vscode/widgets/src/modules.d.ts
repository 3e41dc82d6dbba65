// What is used of packages that only the bundle of the widgets has: `npm ci` in this folder installs them.

declare module '@jupyter-widgets/html-manager/lib/htmlmanager' {
  export interface ICallbacks {
    iopub?: { [type: string]: (message: object) => void };
  }

  export interface IWidgetView {
    remove(): void;
  }

  export interface IWidgetModel {
    comm_live: boolean;
  }

  export class HTMLManager {
    constructor(options: { loader: (module: string) => Promise<object> });
    protected loadModelClass(
      name: string,
      module: string,
      version: string
    ): Promise<object>;
    protected loadViewClass(
      name: string,
      module: string,
      version: string
    ): Promise<object>;
    protected _models: { [id: string]: Promise<IWidgetModel> };
    has_model(id: string): boolean;
    get_model(id: string): Promise<IWidgetModel>;
    create_view(model: IWidgetModel): Promise<IWidgetView>;
    display_view(view: IWidgetView, element: HTMLElement): Promise<void>;
    handle_comm_open(comm: object, message: object): Promise<IWidgetModel>;
    set_state(state: object): Promise<IWidgetModel[]>;
    disconnect(): void;
  }
}

declare module '@jupyter-widgets/base' {
  export class DOMWidgetModel {}

  export class DOMWidgetView {
    el: HTMLElement;
  }
}

declare module 'anywidget' {
  const create: (base: object) => object;
  export default create;
}

// The dialog that looks a path up: of the computer that runs Jupyter, or of a host.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { FileBrowser, FilterFileBrowserModel } from '@jupyterlab/filebrowser';

import { trans } from '../language/translation';
import { HostDrive } from './hostDrive';

/** The path that the user chose; null for none. *drive*: of a host; without it, Jupyter's own files. */
export async function pickPath(
  title: string,
  manager: IDocumentManager,
  drive: HostDrive | null,
  folder: boolean
): Promise<string | null> {
  const model = new FilterFileBrowserModel({
    manager,
    driveName: drive?.name,
    filter: ({ type }) => (folder && type !== 'directory' ? null : {}),
    filterDirectories: false
  });
  const browser = new FileBrowser({ id: 'jp-tpu-pick', model });
  browser.addClass('jp-tpu-Pick');
  if (drive) {
    await model.cd(`/${await drive.home()}`);
  }
  const getValue = () => {
    const [item] = [...browser.selectedItems()];
    return manager.services.contents.localPath(item?.path ?? model.path);
  };
  const { button, value } = await showDialog<string>({
    title,
    body: Object.assign(browser, { getValue }),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Select') })
    ]
  });
  return button.accept ? (drive ? `/${value}` : value || '.') : null;
}

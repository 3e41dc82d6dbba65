// The file browser of a host: JupyterLab's own, with the host's name above it.

import { Notification } from '@jupyterlab/apputils';
import {
  FileBrowser,
  IFileBrowserFactory,
  Uploader
} from '@jupyterlab/filebrowser';
import { CommandToolbarButton } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { PanelLayout, Widget } from '@lumino/widgets';

import { trans } from '../language/translation';
import { failureLine } from '../rest/failureText';
import { element } from '../ui/element';
import { filesIcon } from '../ui/icons';
import { HostDrive, IPartialFolder } from './hostDrive';

/** Milliseconds between two looks at a folder: each runs a program on the host. */
const REFRESH = 30000;

export function createBrowser(
  drive: HostDrive,
  title: string,
  factory: IFileBrowserFactory,
  commands: CommandRegistry
): FileBrowser {
  const browser = factory.createFileBrowser(`jp-tpu-files-${drive.name}`, {
    driveName: drive.name,
    refreshInterval: REFRESH,
    auto: false
  });
  const { model } = browser;
  browser.title.icon = filesIcon;
  browser.title.caption = trans.__('Files of %1', title);
  browser.title.closable = true;
  browser.node.setAttribute('role', 'region');
  browser.node.setAttribute('aria-label', browser.title.caption);

  browser.toolbar.addItem(
    'new-folder',
    new CommandToolbarButton({
      commands,
      id: 'filebrowser:create-new-directory',
      label: ''
    })
  );
  browser.toolbar.addItem('upload', new Uploader({ model }));
  browser.toolbar.addItem(
    'refresh',
    new CommandToolbarButton({ commands, id: 'filebrowser:refresh', label: '' })
  );

  // Above it: the host's name, and why its files can't be seen.
  const problem = element('p', { role: 'status' });
  const heading = new Widget();
  heading.addClass('jp-tpu-Files-heading');
  heading.node.append(element('strong', {}, title), problem);
  (browser.layout as PanelLayout).insertWidget(0, heading);
  model.connectionFailure.connect((_, error) => {
    problem.textContent = failureLine(error);
  });
  model.refreshed.connect(() => {
    problem.textContent = '';
  });

  const notified = new Set<string>();
  const notify = (_: HostDrive, { path, listed, left_out }: IPartialFolder) => {
    if (!notified.has(path)) {
      notified.add(path);
      Notification.warning(
        trans.__(
          '/%1 on %2: %3 files are listed, %4 are not. Use a terminal to see all.',
          path,
          title,
          listed,
          left_out
        )
      );
    }
  };
  // JupyterLab's own model takes only changes of the default drive for its own.
  const refresh = () => void model.refresh();
  drive.partialFolder.connect(notify);
  drive.fileChanged.connect(refresh);
  browser.disposed.connect(() => {
    drive.partialFolder.disconnect(notify);
    drive.fileChanged.disconnect(refresh);
  });
  return browser;
}

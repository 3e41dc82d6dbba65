// The plugins of the extension, one for each part. A part that is disabled is missing, and the others
// go on without it; what they share is in tokens.ts.

import actions from './app';
import compatibility from './app/compatibility';
import model from './app/modelPlugin';
import panel from './app/panelPlugin';
import drive from './files';
import apps from './forwarding';
import jobs from './jobs';
import kernels from './kernels';
import notifications from './operations/notifications';
import running from './panel/running';
import statusBar from './panel/statusBar';
import podOutput from './pod';
import sessions from './sessions';

export default [
  compatibility,
  ...model,
  ...actions,
  ...panel,
  ...apps,
  ...drive,
  ...kernels,
  ...jobs,
  ...podOutput,
  ...sessions,
  notifications,
  running,
  statusBar
];

// The plugins of the extension, one for each part. A part that is disabled is missing, and the others
// go on without it; what they share is in tokens.ts.

import actions from './actions';
import apps from './apps';
import compatibility from './compatibility';
import drive from './drive';
import jobs from './jobs';
import kernels from './kernels';
import model from './model';
import notifications from './notifications';
import panel from './panel';
import runs from './runs';
import running from './running';
import statusBar from './statusBar';

export default [
  compatibility,
  ...model,
  ...actions,
  ...panel,
  ...apps,
  ...drive,
  ...kernels,
  ...runs,
  ...jobs,
  notifications,
  running,
  statusBar
];

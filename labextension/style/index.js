import 'uplot/dist/uPlot.min.css';

import './panel.css';
import './parts.css';
import './tpu.css';
import './page.css';
import './operation.css';
import './form.css';
import './elsewhere.css';
import './job.css';
import './load.css';
import './pod.css';

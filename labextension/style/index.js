import './panel.css';
import './parts.css';
import './tpu.css';
import './operation.css';
import './form.css';
import './elsewhere.css';
import './job.css';

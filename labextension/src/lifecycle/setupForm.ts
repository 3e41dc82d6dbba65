// What hosts get beside Python, as fields of forms: of a new TPU, and of an environment.

import { packagesIn } from '../environments/packages';
import { IHostSetup } from '../rest/api';

export interface ISetupFields {
  /** Packages of apt, as they are typed. */
  apt: string;
  timezone: string;
  ohMyZsh: boolean;
  /** The text of the setup script. */
  script: string;
}

/** What the fields show of *setup*. */
export function setupFields(setup?: IHostSetup): ISetupFields {
  return {
    apt: setup?.apt.join('\n') ?? '',
    timezone: setup?.timezone ?? '',
    ohMyZsh: setup?.oh_my_zsh ?? false,
    script: setup?.script ?? ''
  };
}

/** Whether anything is asked for. */
export function hasSetup(fields: ISetupFields): boolean {
  const { apt, ohMyZsh, script, timezone } = fields;
  return !!(apt.trim() || timezone.trim() || ohMyZsh || script.trim());
}

/** What the fields ask for. */
export function setupOf(fields: ISetupFields): IHostSetup {
  const { apt, ohMyZsh, script, timezone } = fields;
  return {
    apt: packagesIn(apt),
    timezone: timezone.trim(),
    oh_my_zsh: ohMyZsh,
    script: script.trim() ? script : ''
  };
}

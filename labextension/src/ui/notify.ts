// Notifications: a success goes away by itself, anything else stays until the user has seen it.

import { Notification } from '@jupyterlab/apputils';

/** Milliseconds for which a success is shown. */
export const SUCCESS_TIMEOUT = 8000;

/** A button of a notification. */
export interface INotificationAction {
  label: string;
  callback: (event: MouseEvent) => unknown;
}

/** Each returns the notification's id. */
export const notify = {
  success: (text: string, ...actions: INotificationAction[]): string =>
    Notification.success(text, { autoClose: SUCCESS_TIMEOUT, actions }),
  warning: (text: string, ...actions: INotificationAction[]): string =>
    Notification.warning(text, { autoClose: false, actions }),
  error: (text: string, ...actions: INotificationAction[]): string =>
    Notification.error(text, { autoClose: false, actions })
};

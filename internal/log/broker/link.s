// This file lets the compiler take withFS for a function whose body is elsewhere.
